package script

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of what is kept of one step of a candidate.
const (
	MaxShadowPaths   = 32
	MaxShadowSamples = 8
	// MaxShadowPathBytes bounds a path.
	MaxShadowPathBytes = 256
	// MaxShadowCount bounds each count: more than any process counts, and sums of many do not overflow.
	MaxShadowCount = 1 << 48
)

// ShadowFindings are where results differ.
type ShadowFindings struct {
	// Paths counts the different results by JSON pointer; OtherPaths counts those of paths beyond
	// MaxShadowPaths.
	Paths      map[string]uint64
	OtherPaths uint64
	Samples    []ShadowSample
}

// ShadowSample is a call whose results differ. Its texts are JSON with the masked parts replaced.
type ShadowSample struct {
	Time      time.Time
	Active    uint64 // the versions
	Candidate uint64
	// Input is the list of the arguments.
	Input string
	// Live and Shadow are the lists of the results, or errors.
	Live, Shadow string
	Paths        []string
	// Logs are the first lines that the candidate logged.
	Logs []string
}

// AddPath counts so many results that differ at the path.
func (f *ShadowFindings) AddPath(path string, n uint64) {
	path = CutText(path, MaxShadowPathBytes)
	if _, known := f.Paths[path]; !known && len(f.Paths) == MaxShadowPaths {
		f.OtherPaths = addCounts(f.OtherPaths, n)
		return
	}
	if f.Paths == nil {
		f.Paths = map[string]uint64{}
	}
	f.Paths[path] = addCounts(f.Paths[path], n)
}

// addCounts adds the counts up to MaxShadowCount.
func addCounts(a, b uint64) uint64 { return min(a+min(b, MaxShadowCount), MaxShadowCount) }

// CutText returns at most so many bytes of the text, which is valid UTF-8 then: a message takes nothing else.
func CutText(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// AddSample keeps the sample if there is room, or if it shows paths that no other does.
func (f *ShadowFindings) AddSample(s ShadowSample) {
	same := func(o ShadowSample) bool { return slices.Equal(o.Paths, s.Paths) }
	if slices.ContainsFunc(f.Samples, same) && len(f.Samples) >= 2 || len(f.Samples) == MaxShadowSamples {
		return
	}
	f.Samples = append(f.Samples, s)
}

// Add adds what was found elsewhere, within the bounds.
func (f *ShadowFindings) Add(o *ShadowFindings) {
	for _, path := range slices.Sorted(maps.Keys(o.Paths)) {
		f.AddPath(path, o.Paths[path])
	}
	f.OtherPaths = addCounts(f.OtherPaths, o.OtherPaths)
	for _, s := range o.Samples {
		f.AddSample(s)
	}
}

// ShadowPath is how many results differ at a path.
type ShadowPath struct {
	Path  string
	Count uint64
}

// ByCount returns the paths, most frequent first.
func (f *ShadowFindings) ByCount() []ShadowPath {
	list := make([]ShadowPath, 0, len(f.Paths))
	for path, n := range f.Paths {
		list = append(list, ShadowPath{path, n})
	}
	slices.SortFunc(list, func(a, b ShadowPath) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Path, b.Path))
	})
	return list
}
