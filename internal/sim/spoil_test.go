package sim

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// spoil puts garbage in place of the record of a script, past the replicas. What was live
// before is to stay live everywhere. The store remembers it: a replica that starts knows it.
func (w *world) spoil(st step) {
	names := w.truth.names()
	if len(names) == 0 {
		return
	}
	name := names[st.mode%len(names)]
	if now, err := w.truth.Release(w.ctx, name); err != nil || now.Revision == 0 || now.Deleted {
		return // it is spoiled, or gone
	}
	w.log("#%d garbage in place of the record of %s", st.number, name)
	w.truth.Spoil(script.Object{Release: &script.Release{Name: name}}.Key(), false)
}

// repair repairs what was spoiled, as an operator does.
func (w *world) repair() {
	r := registry.New(registry.Config{Store: w.truth, Checkup: w.truth.Store})
	req := registry.DoctorRequest{By: access.Everybody("unix"), Repair: true, Author: "doctor", Note: "doctor"}
	for f, err := range r.Doctor(context.Background(), req) {
		if err != nil || !f.Repaired {
			w.violate("the doctor does not repair %+v: %v", f, err)
		}
		w.log("repaired %s", f.Key)
	}
}
