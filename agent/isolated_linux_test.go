package agent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/worker/inside"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// This test binary is also the process of a tenant.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		err := inside.Run(inside.Config{Engines: []engine.Engine{echo{}}, Version: "test"})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The candidate of a tenant that has a process is tested there, and runs and is counted
// there.
func TestACandidateInAProcess(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", `1`)
	r.configure("acme", script.TenantSettings{Isolation: script.IsolationProcess})
	r.start()
	told := listen(t, r)
	dir := t.TempDir()
	n := startNode(t, r, dir, func(cfg *agent.Config) {
		cfg.Workers.Command, cfg.Workers.Dir = []string{"worker"}, filepath.Join(r.dir, "tenants")
	})
	n.answers(t, r, "acme/route", `1`)
	r.offer("route", `2`, func(rel *script.Release) { rel.Settings.Tests = expecting(`3`) })
	attempt := func() uint64 { return r.releases["acme/route"].Candidate.Attempt }
	told.want(t, r, "route", fmt.Sprintf("2/%d SCRIPT tests[answer]: want 3, got 2 0-0", attempt()))
	r.revise("route", func(rel *script.Release) {
		rel.Candidate.Attempt, rel.Settings.Tests, rel.Enabled = uint64(r.head), expecting(`2`), false
	})
	told.want(t, r, "route", fmt.Sprintf("2/%d passed 0-0", attempt()))
	r.revise("route", func(rel *script.Release) {
		rel.Candidate.Step, rel.Candidate.Threshold, rel.Enabled = 1, shareWith("route", true), true
	})
	n.answers(t, r, "acme/route", `2`)
	n.is(t, "acme/route", `2`)
	n.is(t, "acme/route@1", `1`)
	told.want(t, r, "route", fmt.Sprintf("2/%d passed 2-0", attempt()))
	if n.Workers().Status()[0].PID == 0 {
		t.Error("the tenant has no process")
	}
}

// The process of a tenant gets nothing that no publisher has signed.
func TestSignaturesInAProcess(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", `1`)
	r.publishSigned("acme/route", `2`, keyOf(7))
	r.configure("acme", script.TenantSettings{Isolation: script.IsolationProcess})
	r.start()
	n := startNode(t, r, t.TempDir(), func(cfg *agent.Config) {
		cfg.Workers.Command, cfg.Workers.Dir = []string{"worker"}, filepath.Join(r.dir, "tenants")
		cfg.Publishers = publisher.NewRoots(trustOf(t, 7))
	})
	n.answers(t, r, "acme/route", `2`)
	r.publish("route", `3`)
	r.publish("shop/mark", `4`)
	n.answers(t, r, "shop/mark", `4`)
	n.is(t, "acme/route", `2`)
	for _, ref := range []string{"acme/route@1", "acme/route@3"} {
		if got, err := n.call(t, ref); script.KindOf(err) != script.NotFound {
			t.Errorf("%s: %q, %v", ref, got, err)
		}
	}
	r.publishSigned("acme/route", `5`, keyOf(7))
	n.answers(t, r, "acme/route", `5`)
	if got, err := n.call(t, "acme/route@3"); script.KindOf(err) != script.NotFound {
		t.Errorf("what was forged before: %q, %v", got, err)
	}
	n.is(t, "acme/route@2", `2`)
}

// The process of a tenant runs no retained version with a config that no publisher has signed.
func TestWhatRetainedVersionsRunWithIsSignedInAProcess(t *testing.T) {
	r := newRegistry(t)
	config := func(config string) script.Spec { return script.Spec{Config: json.RawMessage(config)} }
	said := []script.Spec{config(`{"n":1}`), config(`{"n":"evil"}`), config(`{"n":3}`)}
	for i, spec := range said {
		source := fmt.Sprint(i + 1)
		r.set("acme/route", func(rel *script.Release) {
			rel.Settings.Spec = config(fmt.Sprintf(`{"n":%d}`, i+1))
			activate(rel, by(t, keyOf(7), rel, next(rel, source)).With(spec))
		}, source)
		r.sources[script.DigestOf(spec.Document())] = spec.Document()
	}
	r.configure("acme", script.TenantSettings{Isolation: script.IsolationProcess})
	r.start()
	roots := publisher.NewRoots(trustOf(t, 7))
	n := startNode(t, r, t.TempDir(), func(cfg *agent.Config) {
		cfg.Workers.Command, cfg.Workers.Dir = []string{"worker"}, filepath.Join(r.dir, "tenants")
		cfg.Publishers = roots
	})
	n.answers(t, r, "acme/route", `3`)
	n.is(t, "acme/route@1", `1`)
	if got, err := n.call(t, "acme/route@2"); script.KindOf(err) != script.Denied {
		t.Errorf("with a config that nobody has signed: %q, %v", got, err)
	}
	roots.Replace(nil)
	n.PublishersChanged()
	n.is(t, "acme/route@2", `2`)
}

// A key that is not trusted any more takes what it signed from processes at once, but for what
// is live and its candidate.
func TestPublishersAreReplacedInAProcess(t *testing.T) {
	r := newRegistry(t)
	for _, source := range []string{`1`, `2`} {
		r.publishSigned("acme/route", source, keyOf(7))
	}
	r.publishSigned("acme/other", `1`, keyOf(8))
	r.configure("acme", script.TenantSettings{Isolation: script.IsolationProcess})
	r.start()
	roots := publisher.NewRoots(trustOf(t, 7, 8))
	n := startNode(t, r, t.TempDir(), func(cfg *agent.Config) {
		cfg.Workers.Command, cfg.Workers.Dir = []string{"worker"}, filepath.Join(r.dir, "tenants")
		cfg.Publishers = roots
	})
	n.answers(t, r, "acme/route", `2`)
	n.is(t, "acme/route@1", `1`)
	r.offer("route", `3`, func(rel *script.Release) {
		rel.Candidate.Version = by(t, keyOf(7), rel, rel.Candidate.Version)
		rel.Candidate.Step, rel.Candidate.Threshold = 1, shareWith("route", true)
		rel.Retained[2] = rel.Candidate.Version
	})
	n.answers(t, r, "acme/route", `3`)
	pid := n.Workers().Status()[0].PID
	for _, tt := range []struct {
		keys    []byte
		refused []string
	}{{[]byte{8}, []string{"acme/route@1"}}, {[]byte{7, 8}, nil}, {[]byte{7}, nil}, {[]byte{8}, []string{"acme/route@1"}}} {
		roots.Replace(trustOf(t, tt.keys...))
		n.PublishersChanged()
		for _, live := range []struct{ ref, want string }{
			{"acme/route@1", `1`}, {"acme/route@2", `2`}, {"acme/route@3", `3`}, {"acme/route", `3`}, {"acme/other", `1`},
		} {
			got, err := n.call(t, live.ref)
			if slices.Contains(tt.refused, live.ref) {
				if script.KindOf(err) != script.NotFound {
					t.Errorf("with the keys %v, %s: %q, %v", tt.keys, live.ref, got, err)
				}
				continue
			}
			if err != nil || got != live.want {
				t.Errorf("with the keys %v, %s: %q, %v; want %q", tt.keys, live.ref, got, err, live.want)
			}
		}
	}
	if got := n.Workers().Status()[0].PID; got != pid {
		t.Errorf("process %d was replaced by %d", pid, got)
	}
}
