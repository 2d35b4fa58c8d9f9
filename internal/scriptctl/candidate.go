package scriptctl

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The views of candidates, as those of views.go.

type candidateView struct {
	Version uint64                `json:"version"`
	Digest  script.Digest         `json:"digest"`
	State   script.CandidateState `json:"state"`   // Testing, RollingOut, Failed or Frozen
	Attempt int                   `json:"attempt"` // from 1
	Step    int                   `json:"step"`    // from 1; 0 before the first
	Steps   int                   `json:"steps"`   // that there are
	Percent int                   `json:"percent"` // of the agents run it, or of the keys if By is "key"
	By      script.By             `json:"by,omitempty"`
	// Selector has the labels of the agents that the step takes, if it has one.
	Selector map[string]string `json:"selector,omitempty"`
	Since    *time.Time        `json:"since,omitempty"`
	Reason   string            `json:"reason,omitempty"` // why it was given up
	// Running is since when all agents of the step run it, and Lost are agents that ended, or are
	// not heard any more, while they were to run it or to test it.
	Running *time.Time `json:"running,omitempty"`
	Lost    []string   `json:"lost,omitempty"`
	// CallsBefore is the number of its calls when the step began.
	CallsBefore uint64 `json:"callsBefore,omitempty"`
	// Frozen is who had frozen the registry when it was published, since when and why, until it
	// begins.
	Frozen string `json:"frozen,omitempty"`
	// ChangeSet is what it is part of, if it is part of one: then it moves with all of that, by the
	// plan of that.
	ChangeSet *membershipView `json:"changeSet,omitempty"`
}

// membershipView is the change set that a candidate is part of.
type membershipView struct {
	Name    string   `json:"name"`             // tenant/name
	Scripts []string `json:"scripts"`          // all of them, as tenant/name
	Values  []string `json:"values,omitempty"` // the keys that its candidates read as they will be
}

type trialsView struct {
	Passed      int    `json:"passed"` // agents
	Failed      int    `json:"failed"`
	Running     int    `json:"running"`
	Calls       uint64 `json:"calls"`
	FailedCalls uint64 `json:"failedCalls"`
	// Shadow is what agents found in a shadow step.
	Shadow *shadowView `json:"shadow,omitempty"`
	// Agents that it waits for, the names of the first of them, and why the first one
	// takes so long, if it says so.
	Waiting    int      `json:"waiting"`
	WaitingFor []string `json:"waitingFor,omitempty"`
	WaitingWhy string   `json:"waitingWhy,omitempty"`
	// Why is what the rollout waits for, in words.
	Why string `json:"why,omitempty"`
	// Evidence is what speaks for the candidate so far, in words.
	Evidence string `json:"evidence,omitempty"`
}

type planView struct {
	Steps            []stepView `json:"steps,omitempty"`
	MaxErrorPercent  *float64   `json:"maxErrorPercent,omitempty"`
	MaxErrorIncrease *float64   `json:"maxErrorIncrease,omitempty"`
	MaxDiffPercent   *float64   `json:"maxDiffPercent,omitempty"`
	// By percentile, in percent.
	MaxLatencyIncrease map[string]int `json:"maxLatencyIncrease,omitempty"`
	MinCalls           *int           `json:"minCalls,omitempty"`
	FailureLimit       string         `json:"failureLimit,omitempty"` // "3", or "5 %" of the agents
	Tolerate           string         `json:"tolerate,omitempty"`
	DeadlineSeconds    float64        `json:"progressDeadlineSeconds,omitempty"`
	OnDeadline         string         `json:"onDeadline,omitempty"`
	After              []string       `json:"after,omitempty"`
	// Key is where agents take the keys of requests from.
	Key script.KeySource `json:"key,omitempty"`
}

type stepView struct {
	Percent      int       `json:"percent,omitempty"` // of the agents, or of those that the selector selects; all of these without it
	By           script.By `json:"by,omitempty"`      // "key": of the keys of calls
	Shadow       int       `json:"shadow,omitempty"`  // percentage of the calls that it shadows
	PauseSeconds float64   `json:"pauseSeconds"`
	Approval     bool      `json:"approval,omitempty"`
	// Selector has the labels of the agents that the step takes.
	Selector map[string]string `json:"selector,omitempty"`
	Gate     *gateView         `json:"gate,omitempty"`
}

// gateView is what is asked before a step passes.
type gateView struct {
	Prometheus string   `json:"prometheus,omitempty"` // the name of the source,
	Webhook    string   `json:"webhook,omitempty"`    // or of this one
	Query      string   `json:"query,omitempty"`
	Min        *float64 `json:"min,omitempty"`
	Max        *float64 `json:"max,omitempty"`
}

type testView struct {
	Name    string          `json:"name"`
	Request json.RawMessage `json:"request,omitempty"`
	Expect  json.RawMessage `json:"expect,omitempty"`
	Error   script.Kind     `json:"error,omitempty"`
}

func viewOfCandidate(r *script.Release) *candidateView {
	c := r.Candidate
	if c == nil {
		return nil
	}
	var step script.Step
	if c.Failed == "" {
		step, _ = r.StepOf()
	}
	return &candidateView{
		Selector: step.Selector.Labels(), By: step.By,
		Version: c.Version.Number, Digest: c.Version.Digest, State: r.CandidateState(), Attempt: attempt(c),
		Step: c.Step, Steps: len(r.Plan().Steps), Percent: c.Percent, Since: timeView(c.Since), Reason: c.Failed,
		Running: timeView(c.Running), Lost: c.Lost, CallsBefore: c.Before, Frozen: c.Frozen, ChangeSet: viewOfMembership(r),
	}
}

func viewOfMembership(r *script.Release) *membershipView {
	set := r.Candidate.Set
	if set == nil {
		return nil
	}
	v := &membershipView{Name: r.Name.Tenant + "/" + set.Name}
	for _, name := range set.Scripts {
		v.Scripts = append(v.Scripts, r.Name.Tenant+"/"+name)
	}
	for _, value := range set.Values {
		v.Values = append(v.Values, value.Key)
	}
	return v
}

// rows say which change set a candidate is part of; none for nil.
func (v *membershipView) rows() [][]string {
	if v == nil {
		return nil
	}
	text := v.Name + " with " + strings.Join(v.Scripts, ", ")
	if len(v.Values) > 0 {
		text += "; values " + strings.Join(v.Values, ", ")
	}
	return [][]string{{"change set:", plain(text)}}
}

// attempt is the number of the candidate's attempt, from 1.
func attempt(c *script.Candidate) int { return max(1, c.Tries) }

func viewOfTrials(t *registryclient.Trials) *trialsView {
	if t == nil {
		return nil
	}
	return &trialsView{
		Passed: t.Passed, Failed: t.Failed, Running: t.Running, Calls: t.Calls, FailedCalls: t.FailedCalls, Shadow: viewOfShadow(t.Shadow),
		Waiting: t.Waiting, WaitingFor: t.WaitingFor, WaitingWhy: t.WaitingWhy, Why: t.Why, Evidence: t.Evidence,
	}
}

func viewOfPlan(p script.Plan) *planView {
	if p.IsZero() {
		return nil
	}
	v := &planView{MaxErrorPercent: p.MaxErrorPercent, MaxErrorIncrease: p.MaxErrorIncrease, MaxDiffPercent: p.MaxDiffPercent, MinCalls: p.MinCalls, DeadlineSeconds: p.ProgressDeadline.Seconds(), OnDeadline: string(p.OnDeadline), Key: p.Key}
	for name, percent := range p.MaxLatencyIncrease.Compared() {
		if v.MaxLatencyIncrease == nil {
			v.MaxLatencyIncrease = map[string]int{}
		}
		v.MaxLatencyIncrease[name] = percent
	}
	if !p.FailureLimit.IsZero() {
		v.FailureLimit = p.FailureLimit.String()
	}
	if !p.Tolerate.IsZero() {
		v.Tolerate = p.Tolerate.String()
	}
	for _, name := range p.After {
		v.After = append(v.After, name.String())
	}
	for _, s := range p.Steps {
		v.Steps = append(v.Steps, viewOfStep(s))
	}
	return v
}

func viewOfStep(s script.Step) stepView {
	v := stepView{PauseSeconds: s.Pause.Seconds(), Approval: s.Approval, Selector: s.Selector.Labels(), Gate: viewOfGate(s.Gate)}
	if s.By == script.ByShadow {
		v.Shadow = s.Percent
		return v
	}
	v.Percent, v.By = s.Percent, s.By
	return v
}

func viewOfGate(g script.Gate) *gateView {
	if g.IsZero() {
		return nil
	}
	v := &gateView{Prometheus: g.Source, Query: g.Query}
	if g.Kind != script.Prometheus {
		v.Prometheus, v.Webhook = "", g.Source
	}
	if g.Min.Set {
		v.Min = new(g.Min.Value)
	}
	if g.Max.Set {
		v.Max = new(g.Max.Value)
	}
	return v
}

func viewOfTests(tests []script.Test) []testView {
	var views []testView
	for _, t := range tests {
		views = append(views, testView{Name: t.Name, Request: plainJSON(t.Request), Expect: plainJSON(t.Expect), Error: t.Error})
	}
	return views
}
