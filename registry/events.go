package registry

import "github.com/scriptorium-dev/scriptorium/script"

// tenantEvent is what scripts of a tenant run on.
type tenantEvent struct{ tenant, name string }

// eventsOf returns the events that the script takes a place of: that of its active version, and that of
// its candidate, which may run for some keys, or everywhere soon. Either may be "".
func eventsOf(r script.Release) (events [2]string) {
	if r.Deleted || !r.Enabled {
		return events
	}
	events[0] = r.Settings.Trigger.Event
	if c := r.Candidate; c != nil && c.Failed == "" && c.Spec.Trigger.Event != events[0] {
		events[1] = c.Spec.Trigger.Event
	}
	return events
}

// newEvents yields the events that next takes a place of, and cur does not.
func newEvents(cur, next script.Release) func(yield func(event string) bool) {
	return func(yield func(string) bool) {
		had := eventsOf(cur)
		for _, event := range eventsOf(next) {
			if event != "" && event != had[0] && event != had[1] && !yield(event) {
				return
			}
		}
	}
}

// withinEvents refuses one more script of an event than there may be: agents would refuse all
// requests of the event. Like withinQuota, it goes by what this replica has seen; agents take a few more.
// What the registry does by itself takes no place that is not counted yet.
func (r *Registry) withinEvents(a writeRequest, b basis, d *decision) error {
	if !d.changed || a.bySystem || r.recent == nil {
		return nil
	}
	tenant := d.release.Name.Tenant
	for event := range newEvents(b.release, d.release) {
		if n := r.recent.onEvent(tenant, event) + b.also.events[event]; n >= script.MaxEventScripts {
			return overQuota(script.Limit, "trigger.event", quotaUse{quotaEventScripts, int64(n), script.MaxEventScripts},
				"the tenant %s has %d enabled scripts with the event %s, the most that there may be: disable some, or use several events", tenant, n, event)
		}
	}
	return nil
}

// addition is what the scripts of a transaction that are decided already take.
type addition struct {
	usage
	events map[string]int // nil if there are none
}

// add adds what a script takes more than before.
func (u *addition) add(cur, next script.Release) {
	if !live(cur) && !next.Deleted {
		u.scripts++
	}
	u.bytes += max(0, sourceBytes(next)-sourceBytes(cur))
	for event := range newEvents(cur, next) {
		if u.events == nil {
			u.events = map[string]int{}
		}
		u.events[event]++
	}
}
