package follow

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	statusEvery = 5 * time.Second        // without a change
	statusApart = 100 * time.Millisecond // at least: ten in any second
	callJitter  = 200 * time.Millisecond // at most, before answering a roll call
	maxFailures = 256                    // in one status
	maxLags     = 1024                   // in one status; an agent that starts lags for all tenants that have a process
	maxFault    = 256                    // bytes of why the disk cannot be written
	maxReason   = 1024                   // bytes of the message of one: a status must fit into one message of NATS
)

// status decides when the agent says how it is, and what. It is used by one
// goroutine.
type status struct {
	base     *eventv1.Status
	random   *mathrand.Rand
	failures []failure
	troubles []Trouble                  // that others have with what is live
	trials   []Trial                    // of candidates
	lags     map[string]script.Revision // of what is live, by tenant

	tenants []string
	keys    []string // that what is on disk is signed by
	drifts  uint64

	repaired uint64        // drifts that are over
	held     string        // why what the registry says is not applied
	apart    time.Duration // between two reports, at least
	live     []activation  // the last, in the order of their revisions

	sequence uint64
	sent     time.Time
	wanted   time.Time // when to send the next; zero: only when it is time anyhow
	dirty    bool      // something changed since the last
}

// activation is when everything up to a revision was live.
type activation struct {
	revision script.Revision
	at       time.Time
}

// Bounds of what a status tells of activations: it tells each in several reports, as
// one may get lost.
const (
	maxActivations = 32
	activationsFor = 10 * time.Second
)

func newStatus(cfg Config, random *mathrand.Rand) status {
	return status{
		base: &eventv1.Status{
			Agent:       cfg.Agent,
			Incarnation: rand.Text(),
			Labels:      maps.Clone(cfg.Labels),
			Software:    cfg.Software,

			KnowsSelectors:  true,
			KnowsChangeSets: true,
			KnowsKeys:       true,
			KnowsShadows:    true,
			KnowsQueries:    true,
		},
		random:  random,
		tenants: cfg.Tenants.Globs(),
		apart:   statusApart,
	}
}

// slow takes in how long the registry wants reports to be apart.
func (s *status) slow(apart time.Duration) { s.apart = min(max(apart, statusApart), statusEvery) }

// reason returns err in the form that a status carries: bounded, and text in
// which whatever was not is replaced, for with anything else the whole status
// could not be sent.
func reason(err error) *scriptv1.Error {
	m := wire.FromError(err)
	m.Kind, m.Field, m.Message = text(m.GetKind()), text(m.GetField()), text(m.GetMessage())
	return m
}

func text(s string) string {
	return within(strings.ToValidUTF8(s, "\uFFFD"), maxReason)
}

// within returns at most so many bytes of s, which is text.
func within(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") // without half a character
	}
	return s
}

// told returns what a status tells of: failures, and where there is room, the troubles
// of what has not failed; what has stood for longest first. activated is up to where
// everything else is live: at, unless there is no room for all failures. What is in
// trouble is live, so that to leave it out says nothing false.
func (s *status) told(at script.Revision) (told []failure, activated script.Revision) {
	failures := make([]failure, 0, len(s.failures))
	for _, f := range s.failures {
		if f.awaited {
			at = min(at, f.since-1)
			continue
		}
		failures = append(failures, f)
	}
	if len(failures) > maxFailures {
		return failures[:maxFailures], min(at, failures[maxFailures].since-1)
	}
	if len(s.troubles) == 0 {
		return failures, at
	}
	told = slices.Clone(failures)
	for _, t := range s.troubles {
		if len(told) == maxFailures {
			break
		}
		if slices.ContainsFunc(failures, func(f failure) bool { return f.message.GetKey() == t.Key }) {
			continue
		}
		told = append(told, failure{since: t.Revision, message: &eventv1.Failure{
			Key: t.Key, Revision: int64(t.Revision), Error: reason(t.Err),
		}})
	}
	slices.SortFunc(told, longestFirst)
	return told, at
}

// lagging returns the lags that a status tells of, and up to where everything else is live: at,
// unless there is no room for all lags.
func (s *status) lagging(at script.Revision) (told []*eventv1.Lag, activated script.Revision) {
	for tenant, above := range s.lags {
		told = append(told, &eventv1.Lag{Tenant: tenant, Above: int64(above)})
	}
	slices.SortFunc(told, func(x, y *eventv1.Lag) int {
		return cmp.Or(cmp.Compare(x.GetAbove(), y.GetAbove()), cmp.Compare(x.GetTenant(), y.GetTenant()))
	})
	if len(told) > maxLags {
		return told[:maxLags], min(at, script.Revision(told[maxLags].GetAbove()))
	}
	return told, at
}

// activated notes that everything up to the revision is live.
func (s *status) activated(now time.Time, r script.Revision) {
	if n := len(s.live); n > 0 && s.live[n-1].revision >= r {
		s.live = s.live[:0] // the registry is another
	}
	s.live = append(s.live[max(0, len(s.live)+1-maxActivations):], activation{r, now})
}

// activations are the last, in the form that a status carries.
func (s *status) activations(now time.Time) []*eventv1.Activation {
	var list []*eventv1.Activation
	for _, a := range s.live {
		if ago := now.Sub(a.at); ago <= activationsFor {
			list = append(list, &eventv1.Activation{Revision: int64(a.revision), Ago: durationpb.New(max(0, ago))})
		}
	}
	return list
}

// changed asks for a report at once.
func (s *status) changed() { s.dirty = true }

// called asks for a report within the jitter, so that not all agents answer a
// roll call at the same moment.
func (s *status) called(now time.Time) {
	s.wanted = earlier(s.wanted, now.Add(time.Duration(s.random.Int64N(int64(callJitter)))))
}

// wake returns when the next report is due.
func (s *status) wake() time.Time {
	at := s.sent.Add(statusEvery)
	if s.dirty {
		at = s.sent
	}
	at = earlier(at, s.wanted)
	if soonest := s.sent.Add(s.apart); at.Before(soonest) {
		return soonest
	}
	return at
}

func (s *status) due(now time.Time) bool { return !now.Before(s.wake()) }

// compose returns the report to send now.
//
// Everything up to the activated revision is live but for the failures and lags listed.
// If there are too many to list, the revision stays below the first left out.
// Troubles are listed among them, as far as there is room.
func (s *status) compose(now time.Time, at Cursor, leaving bool) *eventv1.Status {
	s.sequence++
	s.sent, s.wanted, s.dirty = now, time.Time{}, false
	told, activated := s.told(at.Revision)
	lags, activated := s.lagging(activated)
	failures := make([]*eventv1.Failure, len(told))
	for i, f := range told {
		failures[i] = f.message
	}
	return &eventv1.Status{
		Fleet:             at.Fleet,
		Agent:             s.base.GetAgent(),
		Incarnation:       s.base.GetIncarnation(),
		Sequence:          s.sequence,
		Labels:            s.base.GetLabels(),
		Software:          s.base.GetSoftware(),
		KnowsSelectors:    s.base.GetKnowsSelectors(),
		KnowsChangeSets:   s.base.GetKnowsChangeSets(),
		KnowsKeys:         s.base.GetKnowsKeys(),
		KnowsShadows:      s.base.GetKnowsShadows(),
		KnowsQueries:      s.base.GetKnowsQueries(),
		ActivatedRevision: int64(activated),
		Failures:          failures,
		Leaving:           leaving,
		SentAt:            timestamppb.New(now),
		Tenants:           s.tenants,
		DiskKeys:          slices.DeleteFunc(slices.Clone(s.keys), func(id string) bool { return id == "" }),
		Drifts:            s.drifts,
		RepairedDrifts:    s.repaired,
		Activations:       s.activations(now),
		Trials:            trialsOf(s.trials),
		Held:              text(s.held),
		Lags:              lags,
	}
}

// report sends a status, if it is time.
func (f *Follower) report(ctx context.Context, now time.Time) {
	if !f.status.due(now) {
		return
	}
	if f.cfg.Troubles != nil {
		f.status.troubles = f.cfg.Troubles()
	}
	if f.cfg.Lags != nil {
		f.status.lags = f.cfg.Lags()
	}
	if f.cfg.Trials != nil {
		f.status.trials = f.cfg.Trials()
	}
	told := f.status.compose(now, f.machine.cursor, false)
	if f.cfg.Disk != nil {
		told.Disk = f.cfg.Disk(now)
		told.Disk.Fault = within(text(told.Disk.GetFault()), maxFault)
	}
	told.Usage = f.usage.next(now, f.hears(now), false)
	err := f.cfg.Reporter.Report(ctx, told, f.session)
	if err == nil {
		f.usage.sent(told.GetUsage(), now)
	}
	level := slog.LevelDebug
	if err != nil && !f.unsent {
		level = slog.LevelWarn // and no more of it until one gets through
	}
	if f.unsent = err != nil; f.unsent {
		f.log.Log(ctx, level, "status not sent, so that the registry does not see this agent; the next one makes up for it", "error", err)
	}
}

// hears reports whether the registry was heard a moment ago, and has given a session in which it believes reports.
func (f *Follower) hears(now time.Time) bool {
	_, ago := f.Position(now)
	return ago >= 0 && ago < usageHeard && len(f.session.Key) > 0
}
