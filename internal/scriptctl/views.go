package scriptctl

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The views are what -o json and -o yaml print. Their fields are a contract with
// whoever's pipeline reads them: add to them, and change none. Digests are
// "sha256:…", durations are seconds, times are RFC 3339.

type scriptView struct {
	Name      string          `json:"script"` // tenant/name
	Revision  script.Revision `json:"revision"`
	Version   uint64          `json:"version"` // the active one; 0 once deleted
	Digest    script.Digest   `json:"digest"`
	Latest    uint64          `json:"latest"`
	Pinned    bool            `json:"pinned"`
	Hold      *holdView       `json:"hold,omitempty"`
	Enabled   bool            `json:"enabled"`
	Deleted   bool            `json:"deleted"`
	Owner     string          `json:"owner,omitempty"`
	specView                  // of the active version
	Rollout   *planView       `json:"rollout,omitempty"`
	Candidate *candidateView  `json:"candidate,omitempty"`
	History   int             `json:"revisionHistoryLimit"`
	ChangedAt *time.Time      `json:"changedAt,omitempty"`
	Versions  []versionView   `json:"versions"` // those that are retained
	// Of a script whose record the registry cannot read. Only its name is known then.
	Unreadable *unreadableView `json:"unreadable,omitempty"`
}

// holdView is who keeps a script at its active version, and what it returns to.
type holdView struct {
	Author   string     `json:"author"`
	Note     string     `json:"note,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Owner    string     `json:"owner,omitempty"`
	Declared uint64     `json:"declaredVersion,omitempty"` // absent for the latest
}

func viewOfHold(h *script.Hold) *holdView {
	if h == nil {
		return nil
	}
	return &holdView{Author: h.Author, Note: h.Note, Since: timeView(h.Since), Owner: h.Owner, Declared: h.Declared}
}

// specView is what a version runs with.
type specView struct {
	Event   string          `json:"event,omitempty"` // the trigger's
	Trigger *triggerView    `json:"trigger,omitempty"`
	OnError *onErrorView    `json:"onError,omitempty"` // absent for the default
	Log     *recordedView   `json:"log,omitempty"`     // absent for the tenant's
	Limits  limitsView      `json:"limits"`
	Config  json.RawMessage `json:"config,omitempty"`
	Tests   []testView      `json:"tests,omitempty"`
	Library bool            `json:"library,omitempty"`
	// Libraries are what the version has of other scripts.
	Libraries []libraryView `json:"libraries,omitempty"`
	Personal  *personalView `json:"personal,omitempty"`
	Artifact  string        `json:"artifact,omitempty"` // where the source came from
}

func viewOfSpec(s script.Spec) specView {
	return specView{
		Event: s.Trigger.Event, Trigger: viewOfTrigger(s.Trigger), OnError: viewOfOnError(s.OnError), Log: viewOfLog(s.Decisions), Limits: viewOfLimits(s.Limits.OrDefaults()), Config: plainJSON(s.Config), Tests: viewOfTests(s.Tests),
		Library: s.Library, Libraries: viewOfLibraries(s.Libraries), Personal: viewOfPersonal(s.Personal), Artifact: s.Artifact,
	}
}

// onErrorView is what a gateway gets if the script makes no decision.
type onErrorView struct {
	Policy string `json:"policy"`
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
}

func viewOfOnError(e script.OnError) *onErrorView {
	if e.IsZero() {
		return nil
	}
	return &onErrorView{Policy: e.Named(), Status: e.Status, Body: e.Body}
}

type limitsView struct {
	Instructions   uint64  `json:"instructions"`
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	SourceBytes    int     `json:"sourceBytes"`
	StringBytes    int     `json:"stringBytes"`
	ResultBytes    int     `json:"resultBytes"`
	LogBytes       int     `json:"logBytes"`    // a second
	Concurrency    int     `json:"concurrency"` // 0: no bound
	Coroutines     bool    `json:"coroutines"`
}

type versionView struct {
	Version    uint64        `json:"version"`
	Digest     script.Digest `json:"digest"`            // of the source
	Settings   script.Digest `json:"settings,omitzero"` // of what it runs with
	Whole      script.Digest `json:"whole,omitzero"`    // of both, the engine and the entrypoint
	Engine     string        `json:"engine"`
	Entrypoint string        `json:"entrypoint"`
	Size       int           `json:"size"`
	Author     string        `json:"author,omitempty"`
	Note       string        `json:"note,omitempty"`
	CreatedAt  *time.Time    `json:"createdAt,omitempty"`
	// Signature is the publisher's DSSE envelope, and SignedBy the keys that it names.
	Signature string   `json:"signature,omitempty"`
	SignedBy  []string `json:"signedBy,omitempty"`
}

type historyView struct {
	Revision  script.Revision `json:"revision"`
	Change    script.Change   `json:"change"`
	Version   uint64          `json:"version"`
	Digest    script.Digest   `json:"digest"`
	Settings  script.Digest   `json:"settings,omitzero"` // the digest of what the version runs with
	Pinned    bool            `json:"pinned"`
	Held      bool            `json:"held"`
	Candidate uint64          `json:"candidate,omitempty"` // its version
	Author    string          `json:"author"`
	Note      string          `json:"note,omitempty"`
	Time      *time.Time      `json:"time,omitempty"`
}

type fleetView struct {
	Fleet     string          `json:"fleet"`
	Revision  script.Revision `json:"headRevision"`
	Connected int             `json:"connectedAgents"`
	Unknown   int             `json:"unknownAgents"`
	Scripts   []statusView    `json:"scripts"`
	// Objects, also values and tenants' settings, whose records the registry cannot read.
	Unreadable []*unreadableView `json:"unreadable,omitempty"`
	Freeze     *freezeView       `json:"freeze,omitempty"` // absent while the registry is not frozen
}

type statusView struct {
	Script       string          `json:"script"`
	Revision     script.Revision `json:"revision"`
	Version      uint64          `json:"version"`
	Digest       script.Digest   `json:"digest"`
	Pinned       bool            `json:"pinned"`
	Hold         *holdView       `json:"hold,omitempty"`
	Enabled      bool            `json:"enabled"`
	Deleted      bool            `json:"deleted"`
	Desired      int             `json:"desired"`
	Active       int             `json:"active"`
	Waiting      int             `json:"waiting"`
	Failed       int             `json:"failed"`
	Unknown      int             `json:"unknown"`
	Starting     int             `json:"starting"`          // connected, and without any script yet
	Lagging      int             `json:"lagging,omitempty"` // the tenant's own process there lacks it
	Converged    bool            `json:"converged"`
	TookSeconds  float64         `json:"tookSeconds,omitempty"` // absent when not known
	SlowestAgent string          `json:"slowestAgent,omitempty"`
	Rollout      *rolloutView    `json:"rollout,omitempty"` // absent when not known
	Failures     []failureView   `json:"failures,omitempty"`
	// Of a script that has a candidate, active counts the agents that run the active version,
	// and trials.running those that run the candidate.
	Candidate *candidateView `json:"candidate,omitempty"`
	Trials    *trialsView    `json:"trials,omitempty"`
	// The registry cannot read the script's record: the rest is what it was before.
	Unreadable *unreadableView `json:"unreadable,omitempty"`
}

type rolloutView struct {
	Agents         int        `json:"agents"`
	MedianSeconds  float64    `json:"medianSeconds"`
	P99Seconds     float64    `json:"p99Seconds"`
	SlowestSeconds float64    `json:"slowestSeconds"`
	SlowestAgent   string     `json:"slowestAgent"`
	ConvergedAt    *time.Time `json:"convergedAt,omitempty"`
}

type failureView struct {
	Agent   string      `json:"agent"`
	Kind    script.Kind `json:"kind"`
	Field   string      `json:"field,omitempty"` // tests[name] of a candidate's test
	Message string      `json:"message"`
	Line    int         `json:"line,omitempty"`
}

func viewOfRelease(r *script.Release) scriptView {
	v := scriptView{
		Name:      r.Name.String(),
		Revision:  r.Revision,
		Version:   r.Active.Number,
		Digest:    r.Active.Digest,
		Latest:    r.Latest,
		Pinned:    r.Pinned,
		Hold:      viewOfHold(r.Hold),
		Enabled:   r.Enabled,
		Deleted:   r.Deleted,
		Owner:     r.Owner,
		specView:  viewOfSpec(r.Settings.Spec),
		Rollout:   viewOfPlan(r.Settings.Rollout),
		Candidate: viewOfCandidate(r),
		History:   r.Settings.HistoryLimit,
		ChangedAt: timeView(r.ChangedAt),
		Versions:  []versionView{},
	}
	if v.History == 0 {
		v.History = script.DefaultHistoryLimit
	}
	for _, version := range r.Retained {
		v.Versions = append(v.Versions, viewOfVersion(&version))
	}
	return v
}

func viewOfLimits(l script.Limits) limitsView {
	return limitsView{
		Instructions: l.Instructions, TimeoutSeconds: l.Timeout.Seconds(),
		SourceBytes: l.SourceBytes, StringBytes: l.StringBytes, ResultBytes: l.ResultBytes,
		LogBytes: l.LogBytes, Concurrency: l.Concurrency, Coroutines: l.Coroutines,
	}
}

func viewOfVersion(v *script.Version) versionView {
	return versionView{
		Version: v.Number, Digest: v.Digest, Settings: v.Spec, Whole: v.Whole(), Engine: v.Engine, Entrypoint: v.Entrypoint, Size: v.Size,
		Author: v.Author, Note: v.Note, CreatedAt: timeView(v.CreatedAt),
		Signature: v.Signature, SignedBy: publisher.SignedBy(v.Signature),
	}
}

func viewOfFleet(f *registryclient.FleetStatus) fleetView {
	v := fleetView{Fleet: f.Fleet, Revision: f.Head, Connected: f.Connected, Unknown: f.Unknown, Scripts: []statusView{}, Freeze: viewOfFreeze(f.Freeze)}
	for i := range f.Scripts {
		v.Scripts = append(v.Scripts, viewOfStatus(&f.Scripts[i]))
	}
	for i := range f.Unreadable {
		v.Unreadable = append(v.Unreadable, viewOfUnreadable(&f.Unreadable[i]))
	}
	return v
}

func viewOfStatus(s *registryclient.ScriptStatus) statusView {
	r := &s.Release
	v := statusView{
		Script: r.Name.String(), Revision: r.Revision, Version: r.Active.Number, Digest: r.Active.Digest,
		Pinned: r.Pinned, Hold: viewOfHold(r.Hold), Enabled: r.Enabled, Deleted: r.Deleted,
		Desired: s.Desired, Active: s.Active, Waiting: s.Waiting(), Failed: s.Failed, Unknown: s.Unknown, Starting: s.Starting, Lagging: s.Lagging,
		Converged: s.Converged, TookSeconds: s.Took.Seconds(), SlowestAgent: s.SlowestAgent,
		Candidate: viewOfCandidate(r), Trials: viewOfTrials(s.Trials), Unreadable: viewOfUnreadable(s.Unreadable),
	}
	if r := s.Rollout; r != nil {
		v.Rollout = &rolloutView{
			Agents: r.Agents, MedianSeconds: r.Median.Seconds(), P99Seconds: r.P99.Seconds(), SlowestSeconds: r.Slowest.Seconds(),
			SlowestAgent: r.SlowestAgent, ConvergedAt: timeView(r.ConvergedAt),
		}
	}
	for _, f := range s.Failures {
		e := orUnsaid(f.Err)
		v.Failures = append(v.Failures, failureView{Agent: f.Agent, Kind: e.Kind, Field: e.Field, Message: e.Message, Line: e.Line})
	}
	return v
}

// orUnsaid is err, or one that says that there is none.
func orUnsaid(err *script.Error) *script.Error {
	if err == nil {
		return &script.Error{Kind: script.Internal, Message: "no reason given"}
	}
	return err
}

// plainJSON rewrites JSON without the escapes that YAML does not know.
func plainJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return raw
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return raw
	}
	return buf.Bytes()
}

func timeView(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
