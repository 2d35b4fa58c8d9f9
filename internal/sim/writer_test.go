package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// write is what a writer wants, until it is known what became of it.
type write struct {
	id       string // of the request; it is the note too, to tell it in the truth
	name     script.Name
	change   script.Change
	source   []byte
	number   uint64
	settings script.Settings
	planned  bool // a publish with settings
	expected script.Revision
}

func (wr write) String() string {
	text := fmt.Sprintf("%s %s", wr.change, wr.name)
	switch wr.change {
	case script.ChangePublish:
		text += fmt.Sprintf(" %.16q", wr.source)
	case script.ChangePin, script.ChangeRollback:
		text += fmt.Sprintf("@%d", wr.number)
	}
	return text
}

// Sources that agents treat differently. The registry takes all of them.
const (
	badSource   = "bad"   // no agent can compile it
	shySource   = "shy"   // an agent compiles it at the second attempt
	largeSource = "large" // it does not travel with its release
)

// newWrite returns the write of a step.
func newWrite(st step) write {
	r := rand.New(rand.NewPCG(st.seed, 2))
	wr := write{
		id:   fmt.Sprintf("request-%012d", st.number),
		name: script.Name{Tenant: tenants[r.IntN(len(tenants))], Script: scripts[r.IntN(len(scripts))]},
	}
	if r.IntN(12) == 0 {
		wr.expected = script.Revision(1 + r.IntN(8))
	}
	wr.number = uint64(1 + r.IntN(4))
	wr.settings.Trigger.Event = fmt.Sprintf("event-%d", r.IntN(3))
	switch r.IntN(16) {
	case 0:
		wr.change = script.ChangePin
	case 1:
		wr.change = script.ChangeRelease
	case 2:
		wr.change, wr.number = script.ChangeRollback, uint64(r.IntN(3))
	case 3:
		wr.change = script.ChangeEnable
	case 4:
		wr.change = script.ChangeDisable
	case 5:
		wr.change, wr.source, wr.planned = script.ChangePublish, newSource(r), true
		wr.settings.HistoryLimit = r.IntN(4)
	case 6, 7, 8:
		wr.change = script.ChangeDelete
	default:
		wr.change, wr.source = script.ChangePublish, newSource(r)
	}
	return wr
}

// newSource returns one of few sources, so that contents come again.
func newSource(r *rand.Rand) []byte {
	text := fmt.Sprintf("return %d", r.IntN(6))
	switch r.IntN(16) {
	case 0:
		text = badSource + " " + text
	case 1, 2:
		text = shySource + " " + text
	case 3:
		text = largeSource + " " + text + strings.Repeat(" ", 65<<10)
	}
	return []byte(text)
}

// anySource is an engine whose compiler takes everything.
type anySource struct{}

func (anySource) Name() string              { return "sim" }
func (anySource) Check(engine.Source) error { return nil }

// Patience of a writer.
const (
	writeAttempts = 6
	writeTimeout  = 2 * time.Second
)

// perform does the write, and does it again with the same request id while nobody
// says what became of it. Then the answer must be true.
func (w *world) perform(wr write, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	var err error
	for attempt := range writeAttempts {
		if attempt > 0 && rest(w.ctx, time.Duration(1+r.IntN(400))*time.Millisecond) != nil {
			break
		}
		server := w.anyServer(r)
		if server == nil {
			err = errNoRegistry
			continue
		}
		if r.IntN(8) == 0 { // the request is lost
			err = errNoRegistry
			continue
		}
		var answer registry.Result
		if answer, err = w.ask(server, wr); err == nil && r.IntN(8) == 0 { // or the answer
			err = errNoRegistry
		}
		if err == nil {
			w.acknowledged(wr, answer)
			return
		}
		if kind := script.KindOf(err); kind != script.Unavailable && kind != script.Internal {
			w.refused(wr, err)
			return
		}
	}
	if n := len(w.truth.noted(wr.id)); n > 1 {
		w.violate("%s, which had no answer, happened %d times", wr, n)
	}
	w.log("%s: given up: %v", wr, err)
}

func (w *world) acknowledged(wr write, answer registry.Result) {
	made := w.truth.noted(wr.id)
	w.log("%s: revision %d, changed %v", wr, answer.Release.Revision, answer.Changed)
	switch {
	case len(made) > 1:
		w.violate("%s was acknowledged, and happened %d times", wr, len(made))
	case answer.Changed && len(made) == 0:
		w.violate("%s was acknowledged as a change, and did not happen", wr)
	case len(made) == 1 && answer.Release.Revision < made[0].revision && answer.Release.Revision != 0: // 0: collected since
		w.violate("%s made revision %d, and was acknowledged with %d", wr, made[0].revision, answer.Release.Revision)
	case len(made) == 0 && wr.change == script.ChangePublish:
		if !w.truth.everLatest(wr.name, script.DigestOf(wr.source)) {
			w.violate("%s was acknowledged as the latest version, which it never was", wr)
		}
	}
}

func (w *world) refused(wr write, err error) {
	w.log("%s: %v", wr, err)
	if made := w.truth.noted(wr.id); len(made) > 0 {
		w.violate("%s was refused (%v), and happened at revision %d", wr, err, made[0].revision)
	}
}

// ask makes one attempt.
func (w *world) ask(s *server, wr write) (registry.Result, error) {
	ctx, cancel := context.WithTimeout(s.life, writeTimeout)
	defer cancel()
	base := registry.Write{
		Name: wr.name, Author: "writer", Note: wr.id, RequestID: wr.id,
		ExpectedRevision: wr.expected, By: access.Everybody("sim"),
	}
	rules := s.registry
	switch wr.change {
	case script.ChangePublish:
		req := registry.PublishRequest{Write: base, Source: wr.source, Entrypoint: registry.DefaultEntrypoint}
		if wr.planned {
			req.Settings = &wr.settings
		}
		result, err := rules.Publish(ctx, req)
		return registry.Result{Release: result.Release, Changed: result.Changed}, err
	case script.ChangePin:
		return rules.Pin(ctx, registry.PinRequest{Write: base, Version: wr.number})
	case script.ChangeRelease:
		return rules.LiftHold(ctx, registry.LiftHoldRequest{Write: base})
	case script.ChangeRollback:
		return rules.Rollback(ctx, registry.RollbackRequest{Write: base, Version: wr.number})
	case script.ChangeEnable, script.ChangeDisable:
		return rules.SetEnabled(ctx, registry.SetEnabledRequest{Write: base, Enabled: wr.change == script.ChangeEnable})
	}
	return rules.Delete(ctx, registry.DeleteRequest{Write: base})
}
