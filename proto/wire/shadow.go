package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromShadowCalls returns the message for c; nil if c is.
func FromShadowCalls(c *script.ShadowCalls) *scriptv1.ShadowCalls {
	if c == nil {
		return nil
	}
	return &scriptv1.ShadowCalls{
		Step: int32(c.Step), Equal: c.Equal, Different: c.Different, Failed: c.Failed, Slower: c.Slower, Dropped: c.Dropped, //nolint:gosec // at most MaxSteps
	}
}

// ToShadowCalls reads m; nil if m is, or says nothing that can be.
func ToShadowCalls(m *scriptv1.ShadowCalls) *script.ShadowCalls {
	if m == nil || m.GetStep() < 1 || m.GetStep() > script.MaxSteps {
		return nil
	}
	c := &script.ShadowCalls{
		Step: int(m.GetStep()), Equal: m.GetEqual(), Different: m.GetDifferent(), Failed: m.GetFailed(), Slower: m.GetSlower(), Dropped: m.GetDropped(),
	}
	if c.Slower > c.Compared() || max(c.Equal, c.Different, c.Failed, c.Dropped) > script.MaxShadowCount {
		return nil
	}
	return c
}

// Bounds of findings in a message.
const (
	maxFindingPaths   = 32
	maxFindingSamples = 8
	maxFindingText    = 5 << 10
	maxFindingLines   = 16
	maxFindingLine    = 512
)

// FromFindings returns the message for f; nil if nothing was found.
func FromFindings(f *script.ShadowFindings) *scriptv1.ShadowFindings {
	if len(f.Paths) == 0 && f.OtherPaths == 0 && len(f.Samples) == 0 {
		return nil
	}
	m := &scriptv1.ShadowFindings{OtherPaths: f.OtherPaths}
	for _, p := range f.ByCount() {
		m.Paths = append(m.Paths, &scriptv1.ShadowPath{Path: p.Path, Count: p.Count})
	}
	for _, s := range f.Samples {
		m.Samples = append(m.Samples, &scriptv1.ShadowSample{
			Time: fromTime(s.Time), Active: s.Active, Candidate: s.Candidate, Input: s.Input, Live: s.Live, Shadow: s.Shadow, Paths: s.Paths, Logs: s.Logs,
		})
	}
	return m
}

// ToFindings reads m, and leaves out what is beyond the bounds.
func ToFindings(m *scriptv1.ShadowFindings) script.ShadowFindings {
	f := script.ShadowFindings{OtherPaths: min(m.GetOtherPaths(), script.MaxShadowCount)}
	for _, p := range m.GetPaths()[:min(len(m.GetPaths()), maxFindingPaths)] {
		f.AddPath(p.GetPath(), p.GetCount())
	}
	for _, s := range m.GetSamples()[:min(len(m.GetSamples()), maxFindingSamples)] {
		f.AddSample(script.ShadowSample{
			Time: timeOf(s.GetTime()), Active: s.GetActive(), Candidate: s.GetCandidate(),
			Input: textOf(s.GetInput()), Live: textOf(s.GetLive()), Shadow: textOf(s.GetShadow()), Paths: textsOf(s.GetPaths()), Logs: textsOf(s.GetLogs()),
		})
	}
	return f
}

// timeOf reads a time that JSON can have; the zero Time in place of any other.
func timeOf(m *timestamppb.Timestamp) time.Time {
	if !m.IsValid() {
		return time.Time{}
	}
	return m.AsTime()
}

// textsOf cuts paths and lines of a log.
func textsOf(list []string) (texts []string) {
	for _, text := range list[:min(len(list), maxFindingLines)] {
		texts = append(texts, script.CutText(text, maxFindingLine))
	}
	return texts
}

// textOf cuts a text that no agent sends.
func textOf(text string) string { return script.CutText(text, maxFindingText) }
