package wire

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/types/known/durationpb"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

func fromCandidate(r *script.Release) *scriptv1.Candidate {
	c := r.Candidate
	if c == nil {
		return nil
	}
	m := &scriptv1.Candidate{
		Version:   c.Version.Number,
		Attempt:   c.Attempt,
		Tries:     int32(c.Tries), //nolint:gosec // a person's retries
		Step:      int32(c.Step),
		Threshold: c.Threshold,
		Percent:   int32(c.Percent),
		Since:     fromTime(c.Since),
		Failed:    c.Failed,
		Paused:    c.Paused,

		Running:     fromTime(c.Running),
		Lost:        c.Lost,
		Calls:       c.Calls,
		FailedCalls: c.FailedCalls,
		CallsBefore: c.Before,
		Approved:    int32(c.Approved), //nolint:gosec // at most MaxSteps
	}
	for _, s := range c.Selections {
		m.Selections = append(m.Selections, &scriptv1.Selection{Selector: s.Selector.Labels(), Threshold: s.Threshold})
	}
	m.Keys, m.Shadows = fromKeys(c.Keys), fromKeys(c.Shadows)
	if c.Frozen != "" { // who does not know a freeze takes it for failed, and lets it be
		m.Frozen, m.Failed = c.Frozen, "frozen "+c.Frozen
	}
	if c.Set != nil { // who does not know change sets takes it for failed, and lets it be
		m.Set = fromMembership(c, m)
		m.Threshold, m.Selections, m.Keys, m.Shadows, m.Failed = 0, nil, nil, nil, fmt.Sprintf("it is part of the %s, which this software does not know: upgrade it", c.Set)
	}
	if !c.Spec.Equal(r.Settings.Spec) {
		m.Settings = FromSettings(script.Settings{Spec: c.Spec})
	}
	return m
}

// toCandidate returns the candidate of r, which has its retained versions and its settings.
func toCandidate(m *scriptv1.Candidate, r *script.Release) (*script.Candidate, error) {
	if m == nil {
		return nil, nil
	}
	v, ok := r.Retains(m.GetVersion())
	if !ok {
		return nil, script.Errorf(script.Invalid, "release", "%s: the candidate %d is not among the retained versions", r.Name, m.GetVersion())
	}
	spec := r.Settings.Spec
	if m.Settings != nil {
		settings, err := ToSettings(m.GetSettings())
		if err != nil {
			return nil, err
		}
		spec = settings.Spec
	}
	set, err := toMembership(m.GetSet())
	if err != nil {
		return nil, err
	}
	threshold, chosen, keyed, shadowed, failed := m.GetThreshold(), m.GetSelections(), m.GetKeys(), m.GetShadows(), m.GetFailed()
	if set != nil {
		threshold, chosen, keyed, shadowed, failed = m.GetSet().GetThreshold(), m.GetSet().GetSelections(), m.GetSet().GetKeys(), m.GetSet().GetShadows(), m.GetSet().GetFailed()
	}
	selections, err := toSelections(chosen)
	if err != nil {
		return nil, err
	}
	keys, err := toKeys(keyed)
	if err != nil {
		return nil, err
	}
	shadows, err := toKeys(shadowed)
	if err != nil {
		return nil, err
	}
	if m.GetFrozen() != "" {
		failed = ""
	}
	return &script.Candidate{
		Version:    v,
		Spec:       spec,
		Attempt:    m.GetAttempt(),
		Tries:      int(m.GetTries()),
		Step:       int(m.GetStep()),
		Threshold:  threshold,
		Percent:    int(m.GetPercent()),
		Selections: selections,
		Keys:       keys,
		Shadows:    shadows,
		Since:      toTime(m.GetSince()),
		Failed:     failed,
		Frozen:     m.GetFrozen(),
		Paused:     m.GetPaused(),
		Set:        set,

		Running:     toTime(m.GetRunning()),
		Lost:        m.GetLost(),
		Calls:       m.GetCalls(),
		FailedCalls: m.GetFailedCalls(),
		Before:      m.GetCallsBefore(),
		Approved:    int(m.GetApproved()),
	}, nil
}

// toSelections refuses one without labels: it would select all agents.
func toSelections(list []*scriptv1.Selection) (selections []script.Selection, err error) {
	for _, m := range list {
		selector, err := script.NewAgentSelector("candidate.selections.selector", m.GetSelector())
		if err != nil {
			return nil, err
		}
		selections = append(selections, script.Selection{Selector: selector, Threshold: m.GetThreshold()})
	}
	return selections, nil
}

func fromPlan(p script.Plan) *scriptv1.Plan {
	if p.IsZero() {
		return nil
	}
	m := &scriptv1.Plan{FailureLimit: fromAmount(p.FailureLimit), Tolerate: fromAmount(p.Tolerate)}
	if p.MinCalls != nil {
		m.MinCalls = new(int32(*p.MinCalls)) //nolint:gosec // a plan that is valid
	}
	if p.ProgressDeadline != 0 {
		m.ProgressDeadline = durationpb.New(p.ProgressDeadline)
	}
	m.OnDeadline = string(p.OnDeadline)
	if p.MaxErrorPercent != nil {
		m.MaxErrorPercent, m.MaxError = new(int32(math.Ceil(*p.MaxErrorPercent))), new(*p.MaxErrorPercent)
	}
	m.MaxErrorIncrease, m.MaxDiffPercent = p.MaxErrorIncrease, p.MaxDiffPercent
	if l := p.MaxLatencyIncrease; !l.IsZero() {
		m.MaxLatencyIncrease = &scriptv1.LatencyIncrease{P50: int32(l.P50), P95: int32(l.P95), P99: int32(l.P99)} //nolint:gosec // a plan that is valid
	}
	for _, s := range p.Steps {
		step := fromShare(s)
		step.Approval, step.Gate = s.Approval, fromGate(s)
		step.Approval = step.Approval || step.Gate != nil // who does not know gates waits for a person
		if s.Pause != 0 {
			step.Pause = durationpb.New(s.Pause)
		}
		m.Steps = append(m.Steps, step)
	}
	for _, name := range p.After {
		m.After = append(m.After, name.String())
	}
	m.Key = string(p.Key)
	return m
}

func toPlan(m *scriptv1.Plan) (script.Plan, error) {
	var p script.Plan
	if m == nil {
		return p, nil
	}
	if m.MaxErrorPercent != nil {
		p.MaxErrorPercent = new(float64(m.GetMaxErrorPercent())) // of an older registry
	}
	if m.MaxError != nil {
		p.MaxErrorPercent = new(m.GetMaxError())
	}
	if m.MinCalls != nil {
		p.MinCalls = new(int(m.GetMinCalls()))
	}
	if m.MaxDiffPercent != nil {
		p.MaxDiffPercent = new(m.GetMaxDiffPercent())
	}
	if m.MaxErrorIncrease != nil {
		p.MaxErrorIncrease = new(m.GetMaxErrorIncrease())
	}
	l := m.GetMaxLatencyIncrease()
	p.MaxLatencyIncrease = script.LatencyIncrease{P50: int(l.GetP50()), P95: int(l.GetP95()), P99: int(l.GetP99())}
	p.FailureLimit, p.Tolerate = toAmount(m.GetFailureLimit()), toAmount(m.GetTolerate())
	if deadline := m.GetProgressDeadline(); deadline != nil {
		if err := deadline.CheckValid(); err != nil {
			return script.Plan{}, script.Errorf(script.Invalid, "rollout.progressDeadline", "%v", err)
		}
		p.ProgressDeadline = deadline.AsDuration()
	}
	p.OnDeadline, p.Key = script.DeadlineAction(m.GetOnDeadline()), script.KeySource(m.GetKey())
	for i, s := range m.GetSteps() {
		if pause := s.GetPause(); pause != nil {
			if err := pause.CheckValid(); err != nil {
				return script.Plan{}, script.Errorf(script.Invalid, "rollout.steps.pause", "%v", err)
			}
		}
		step, err := toShare(s, fmt.Sprintf("rollout.steps[%d].selector", i))
		if err != nil {
			return script.Plan{}, err
		}
		step.Pause, step.Approval, step.Gate = s.GetPause().AsDuration(), s.GetApproval(), toGate(s.GetGate())
		if !step.Gate.IsZero() {
			step.Approval = s.GetGate().GetApproval()
		}
		p.Steps = append(p.Steps, step)
	}
	for i, text := range m.GetAfter() {
		name, err := script.ParseName(text)
		if err != nil {
			return script.Plan{}, script.Errorf(script.Invalid, fmt.Sprintf("rollout.after[%d]", i), "%s", script.AsError(err).Message)
		}
		p.After = append(p.After, name)
	}
	return p, nil
}

func fromGate(s script.Step) *scriptv1.Gate {
	g := s.Gate
	if g.IsZero() {
		return nil
	}
	m := &scriptv1.Gate{Kind: string(g.Kind), Source: g.Source, Query: g.Query, Approval: s.Approval}
	if g.Min.Set {
		m.Min = new(g.Min.Value)
	}
	if g.Max.Set {
		m.Max = new(g.Max.Value)
	}
	return m
}

// toGate returns none for one that says nothing: the step then waits for an approval.
func toGate(m *scriptv1.Gate) script.Gate {
	g := script.Gate{Kind: script.GateKind(m.GetKind()), Source: m.GetSource(), Query: m.GetQuery()}
	if m != nil && m.Min != nil {
		g.Min = script.Bound{Set: true, Value: m.GetMin()}
	}
	if m != nil && m.Max != nil {
		g.Max = script.Bound{Set: true, Value: m.GetMax()}
	}
	return g
}

// FromStepCalls returns nil for none.
func FromStepCalls(c *script.StepCalls) *scriptv1.StepCalls {
	if c == nil {
		return nil
	}
	return &scriptv1.StepCalls{
		Step: int32(c.Step), FailedCalls: c.FailedCalls, //nolint:gosec // at most MaxSteps
		FirstBucket: int32(c.First), Buckets: c.Buckets, //nolint:gosec // at most LatencyBuckets
	}
}

// ToStepCalls returns nil for none, and for what cannot be.
func ToStepCalls(m *scriptv1.StepCalls) *script.StepCalls {
	if m == nil {
		return nil
	}
	c := &script.StepCalls{
		Step: int(m.GetStep()), FailedCalls: m.GetFailedCalls(), First: int(m.GetFirstBucket()), Buckets: m.GetBuckets(),
	}
	if !c.Valid() {
		return nil
	}
	return c
}

func fromAmount(a script.Amount) *scriptv1.Amount {
	if a.IsZero() {
		return nil
	}
	return &scriptv1.Amount{Count: int32(a.Count), Percent: int32(a.Percent), None: a.None} //nolint:gosec // a plan that is valid
}

func toAmount(m *scriptv1.Amount) script.Amount {
	return script.Amount{Count: int(m.GetCount()), Percent: int(m.GetPercent()), None: m.GetNone()}
}

func fromTests(tests []script.Test) []*scriptv1.Test {
	var list []*scriptv1.Test
	for _, t := range tests {
		list = append(list, &scriptv1.Test{Name: t.Name, Request: t.Request, Expect: t.Expect, Error: string(t.Error)})
	}
	return list
}

func toTests(list []*scriptv1.Test) []script.Test {
	var tests []script.Test
	for _, m := range list {
		tests = append(tests, script.Test{Name: m.GetName(), Request: m.GetRequest(), Expect: m.GetExpect(), Error: script.Kind(m.GetError())})
	}
	return tests
}
