package wire

import (
	"cmp"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fromMembership returns the message for the change set of the candidate, with what m says of it
// that older software must not see.
func fromMembership(c *script.Candidate, m *scriptv1.Candidate) *scriptv1.Membership {
	return &scriptv1.Membership{
		Name: c.Set.Name, Attempt: c.Set.Attempt, Scripts: c.Set.Scripts, Plan: fromPlan(c.Set.Plan), Values: fromStaged(c.Set.Values),
		Threshold: m.GetThreshold(), Selections: m.GetSelections(), Keys: m.GetKeys(), Shadows: m.GetShadows(), Failed: m.GetFailed(),
	}
}

func toMembership(m *scriptv1.Membership) (*script.Membership, error) {
	if m == nil {
		return nil, nil
	}
	plan, err := toPlan(m.GetPlan())
	if err != nil {
		return nil, err
	}
	values, err := toStaged(m.GetValues())
	if err != nil {
		return nil, err
	}
	set := &script.Membership{Name: m.GetName(), Attempt: m.GetAttempt(), Scripts: m.GetScripts(), Plan: plan, Values: values}
	return set, set.Validate()
}

func fromStaged(values []script.StagedValue) []*scriptv1.StagedValue {
	var list []*scriptv1.StagedValue
	for _, v := range values {
		list = append(list, &scriptv1.StagedValue{Key: v.Key, Digest: FromDigest(v.Digest), Size: int64(v.Size)})
	}
	return list
}

func toStaged(list []*scriptv1.StagedValue) (values []script.StagedValue, err error) {
	for _, m := range list {
		digest, err := ToDigest(m.GetDigest())
		if err != nil {
			return nil, err
		}
		values = append(values, script.StagedValue{Key: m.GetKey(), Digest: digest, Size: int(m.GetSize())})
	}
	return values, nil
}

// FromPlan returns the message for p; of the zero Plan an empty one, since an absent one can mean
// another plan.
func FromPlan(p script.Plan) *scriptv1.Plan { return cmp.Or(fromPlan(p), &scriptv1.Plan{}) }

// ToPlan reads m.
func ToPlan(m *scriptv1.Plan) (script.Plan, error) { return toPlan(m) }

// FromChangeSet returns the message for s.
func FromChangeSet(s script.ChangeSet) *scriptv1.ChangeSet {
	m := &scriptv1.ChangeSet{
		Tenant: s.Tenant, Name: s.Name, Revision: int64(s.Revision), Attempt: s.Attempt, State: string(s.State), Reason: s.Reason,
		Plan: fromPlan(s.Plan), Author: s.Author, Note: s.Note, CreatedAt: fromTime(s.CreatedAt), ChangedAt: fromTime(s.ChangedAt),
		Fingerprint: FromDigest(s.Fingerprint),
	}
	for _, c := range s.Scripts {
		m.Scripts = append(m.Scripts, &scriptv1.ChangedScript{Name: c.Name, Version: c.Version, Digest: FromDigest(c.Digest), Before: c.Before})
	}
	for _, v := range s.Values {
		m.Values = append(m.Values, &scriptv1.ChangedValue{
			Value: &scriptv1.StagedValue{Key: v.Key, Digest: FromDigest(v.Digest), Size: int64(v.Size)}, Before: v.Before, Version: v.Version,
		})
	}
	return m
}

// ToChangeSet reads m.
func ToChangeSet(m *scriptv1.ChangeSet) (script.ChangeSet, error) {
	plan, err := toPlan(m.GetPlan())
	if err != nil {
		return script.ChangeSet{}, err
	}
	fingerprint, err := ToDigest(m.GetFingerprint())
	if err != nil {
		return script.ChangeSet{}, err
	}
	s := script.ChangeSet{
		Tenant: m.GetTenant(), Name: m.GetName(), Revision: script.Revision(m.GetRevision()), Attempt: m.GetAttempt(),
		State: script.ChangeSetState(m.GetState()), Reason: m.GetReason(), Plan: plan, Author: m.GetAuthor(), Note: m.GetNote(),
		CreatedAt: toTime(m.GetCreatedAt()), ChangedAt: toTime(m.GetChangedAt()), Fingerprint: fingerprint,
	}
	if err := (script.Name{Tenant: s.Tenant, Script: s.Name}).Validate(); err != nil {
		return script.ChangeSet{}, err
	}
	for _, c := range m.GetScripts() {
		digest, err := ToDigest(c.GetDigest())
		if err != nil {
			return script.ChangeSet{}, err
		}
		s.Scripts = append(s.Scripts, script.ChangedScript{Name: c.GetName(), Version: c.GetVersion(), Digest: digest, Before: c.GetBefore()})
	}
	for _, v := range m.GetValues() {
		staged, err := toStaged([]*scriptv1.StagedValue{v.GetValue()})
		if err != nil {
			return script.ChangeSet{}, err
		}
		s.Values = append(s.Values, script.ChangedValue{StagedValue: staged[0], Before: v.GetBefore(), Version: v.GetVersion()})
	}
	return s, nil
}
