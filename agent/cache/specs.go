package cache

import (
	"context"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Running is what a call of a version runs with.
type Running struct {
	Limits  script.Limits   // defaults applied
	Config  []byte          // a JSON object; nil means {}
	OnError *script.OnError // nil for the default
	// Decisions are nil for those of the tenant.
	Decisions *script.Decisions
	// Libraries are what the program is compiled with. Nobody calls a Library.
	Libraries []script.Library
	Library   bool
	Runtime   script.Runtime

	// signed is what a publisher has to have signed; nil if that was seen to when the release
	// went live.
	signed *publisher.Settings
}

func running(s script.Spec) Running {
	return Running{Limits: s.Limits.OrDefaults(), Config: s.Config, OnError: onErrorOf(s), Decisions: s.Decisions, Libraries: s.Libraries, Library: s.Library, Runtime: s.Runtime}
}

// Inputs returns what the program is compiled from beside the source.
func (r Running) Inputs() script.Inputs {
	return script.Inputs{Libraries: r.Libraries, Runtime: r.Runtime}
}

// size estimates the memory that r takes.
func (r Running) size() int {
	n := overhead + len(r.Config) + r.Decisions.Size()
	if r.OnError != nil {
		n += len(r.OnError.Body)
	}
	for _, l := range r.Libraries {
		n += len(l.Source)
	}
	return n
}

// specBytes is how much memory what retained versions run with may take.
const specBytes = 8 << 20

// specs keep what the retained versions run with that were called last.
type specs struct {
	from Sources

	mu    sync.Mutex // guards what follows; nothing is read under it
	lru   *simplelru.LRU[script.Digest, Running]
	bytes int
}

func newSpecs(from Sources) *specs {
	s := &specs{from: from}
	lru, err := simplelru.NewLRU(math.MaxInt, func(_ script.Digest, r Running) { s.bytes -= r.size() })
	if err != nil {
		panic(err) // only a size of 0 or less is an error
	}
	s.lru = lru
	return s
}

func (s *specs) get(ctx context.Context, d script.Digest) (Running, error) {
	s.mu.Lock()
	r, ok := s.lru.Get(d)
	s.mu.Unlock()
	if ok {
		return r, nil
	}
	document, err := s.from.Source(ctx, d)
	if err != nil {
		return Running{}, err
	}
	spec, err := script.ParseSpec(document)
	if err != nil {
		return Running{}, err
	}
	r = running(spec)
	r.signed = new(publisher.SettingsOf(spec))
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lru.Contains(d) {
		s.lru.Add(d, r)
		s.bytes += r.size()
	}
	for s.bytes > specBytes && s.lru.Len() > 1 {
		s.lru.RemoveOldest()
	}
	return r, nil
}

// Running returns what the version of the release with the number, which it retains, runs with.
// It allocates nothing for what Runs here.
func (p *Programs) Running(ctx context.Context, r *Release, number uint64) (Running, error) {
	if with, known := r.Here(number); known {
		return with, nil
	}
	if e := r.edition(number); e != nil {
		return p.specs.get(ctx, e.spec)
	}
	return r.here(), nil
}

// Here returns how the version with that number runs, if the release itself has that.
func (r *Release) Here(number uint64) (with Running, known bool) {
	switch {
	case number == r.Runs.Number:
		return r.here(), true
	case r.active != nil && number == r.active.Number:
		return running(r.active.Spec), true
	case r.Candidate != nil && number == r.Candidate.Version.Number:
		return running(r.Candidate.Spec), true
	}
	e := r.edition(number)
	if e == nil || !e.spec.IsZero() && e.spec != r.Runs.Spec {
		return Running{}, false
	}
	return r.here(), true // an older registry has one for all
}

func (r *Release) here() Running {
	return Running{Limits: r.Limits, Config: r.Config, OnError: r.OnError, Decisions: r.Decisions, Libraries: r.Inputs().Libraries, Library: r.Library, Runtime: r.Inputs().Runtime}
}
