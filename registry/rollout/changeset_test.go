package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

var lib = script.Name{Tenant: "acme", Script: "lib"}

// twoSteps is a plan of a change set.
func twoSteps() *script.Plan {
	return &script.Plan{Steps: []script.Step{{Percent: 10, Pause: time.Minute}, {Percent: 50, Pause: time.Minute}}}
}

// set is a change set of versions of scripts, and one of the value acme/flags.
func set(plan *script.Plan, source string, names ...script.Name) registry.ChangeSetRequest {
	req := registry.ChangeSetRequest{
		Tenant: "acme", Name: "cart", Author: "ann", By: access.Everybody("test"), Plan: plan,
		Values: []registry.StagedContent{{Key: "flags", Content: []byte(source)}},
	}
	for _, name := range names {
		req.Scripts = append(req.Scripts, registry.PublishRequest{Write: registry.Write{Name: name}, Source: []byte("return " + source)})
	}
	return req
}

// live publishes first versions, and the value with it.
func (s *stage) live(names ...script.Name) {
	s.t.Helper()
	for _, name := range names {
		s.publish(name, "old", nil)
	}
	if _, _, err := s.PutValue(s.t.Context(), registry.PutValue{Key: flags, Content: []byte("old"), Author: "ann", By: access.Everybody("test")}); err != nil {
		s.t.Fatal(err)
	}
	s.pass(2 * time.Second)
}

var flags = script.ValueKey{Tenant: "acme", Key: "flags"}

// where says where the scripts and the value are, and the change set.
func (s *stage) where(names ...script.Name) string {
	s.t.Helper()
	said := make([]string, 0, len(names)+2)
	for _, name := range names {
		said = append(said, name.Script+" "+s.stands(name))
	}
	v, content, err := s.Value(s.t.Context(), access.Everybody("test"), flags, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	said = append(said, fmt.Sprintf("flags %s %d", content, v.Version))
	got, err := s.ChangeSet(s.t.Context(), access.Everybody("test"), "acme", "cart")
	if err != nil {
		return strings.Join(append(said, string(script.KindOf(err))), "; ")
	}
	return strings.Join(append(said, strings.TrimSpace(fmt.Sprint(got.State, " ", got.Reason))), "; ")
}

func (s *stage) wantWhere(when, want string, names ...script.Name) {
	s.t.Helper()
	if got := s.where(names...); got != want {
		s.t.Errorf("%s:\n %s\nwant\n %s\n%s", when, got, want, s.log)
	}
}

func (s *stage) publishSet(req registry.ChangeSetRequest) registry.ChangeSetResult {
	s.t.Helper()
	result, err := s.PublishChangeSet(s.t.Context(), req)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// wantTogether fails if the scripts run in another number of steps, or on other agents, than each
// other.
func (s *stage) wantTogether(names ...script.Name) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, agent := range s.agents {
		var runs []bool
		for _, name := range names {
			r := s.releases[name]
			runs = append(runs, r.Candidate != nil && r.Candidate.Selects(name, s.who(agent)))
		}
		if slices.Contains(runs, true) && slices.Contains(runs, false) {
			s.t.Errorf("%s runs some of the change set: %v", agent, runs)
		}
	}
}

// TestAChangeSetIsOneCandidate: its scripts take each step together, on the same agents, and are live in
// one transaction with its values.
func TestAChangeSetIsOneCandidate(t *testing.T) {
	play(t, 10, func(s *stage) {
		stop := s.conduct()
		defer func() { stop() }()
		s.live(route, lib)
		result := s.publishSet(set(twoSteps(), "new", route, lib))
		if !result.Changed || len(result.Set.Scripts) != 2 || result.Set.Scripts[0] != (script.ChangedScript{Name: "lib", Version: 2, Digest: script.DigestOf([]byte("return new")), Before: 1}) {
			t.Errorf("the result is %+v", result)
		}
		s.pass(5 * time.Second)
		s.wantWhere("in the first step", "route 2 in step 1: the pause of step 1 goes on; lib 2 in step 1: the pause of step 1 goes on; flags old 1; OnTrial", route, lib)
		s.wantTogether(route, lib)
		if again := s.publishSet(set(twoSteps(), "new", route, lib)); again.Changed || again.Set.Attempt != result.Set.Attempt {
			t.Errorf("the same change set again is %+v", again)
		}
		stop() // another replica leads
		stop = s.conduct()
		s.pass(65 * time.Second)
		s.wantWhere("in the second step", "route 2 in step 2: the pause of step 2 goes on; lib 2 in step 2: the pause of step 2 goes on; flags old 1; OnTrial", route, lib)
		s.wantTogether(route, lib)
		s.pass(70 * time.Second)
		s.wantWhere("at the end", "route live 2; lib live 2; flags new 2; Live", route, lib)
		for _, name := range []script.Name{lib, route} {
			if r := s.release(name); r.Revision != s.release(route).Revision {
				t.Errorf("%s went live with revision %d, and route with %d", name, r.Revision, s.releases[route].Revision)
			}
		}
		if again := s.publishSet(set(twoSteps(), "new", route, lib)); again.Changed {
			t.Errorf("the change set that is live changed %+v", again)
		}
	})
}

// TestAChangeSetHasOneVerdict: what ends one of its candidates ends all of them, and its values stay.
func TestAChangeSetHasOneVerdict(t *testing.T) {
	everybody := access.Everybody("test")
	steer := func(s *stage, name script.Name, how registry.Steering) {
		s.t.Helper()
		if _, err := s.Steer(s.t.Context(), registry.SteerRequest{Write: registry.Write{Name: name, Author: "bob", By: everybody}, Steering: how}); err != nil {
			s.t.Fatal(err)
		}
	}
	gone := "cart: acme/lib is not part of the change set cart any more: somebody changed it by itself"
	for name, c := range map[string]struct {
		during func(s *stage)
		want   string
	}{
		"a test fails": {
			func(s *stage) {
				s.change(func() {
					s.tests = func(agent string, r *script.Release) (bool, *script.Error) {
						if agent == "n3" && r.Name == lib {
							return true, &script.Error{Kind: script.Script, Message: "boom"}
						}
						return true, nil
					}
				})
			},
			"route 2 failed: acme/lib: n3: boom; lib 2 failed: acme/lib: n3: boom; flags old 1; Failed acme/lib: n3: boom",
		},
		"a canary is lost": {
			func(s *stage) {
				r := s.releases[lib]
				first := slices.IndexFunc(s.agents, func(a string) bool { return r.Candidate.Selects(lib, s.who(a)) })
				lost := s.agents[first]
				s.lose(func(agent string) bool { return agent == lost })
			},
			"",
		},
		"one is published alone": {
			func(s *stage) { s.publish(lib, "newer", nil) },
			"route 2 failed: acme/lib is not part of the change set cart any more: somebody changed it by itself; lib live 3; flags old 1; Failed " + gone[6:],
		},
		"one is deleted": {
			func(s *stage) {
				if _, err := s.Delete(s.t.Context(), registry.DeleteRequest{Write: registry.Write{Name: lib, Author: "bob", By: everybody}}); err != nil {
					s.t.Fatal(err)
				}
			},
			"route 2 failed: acme/lib was deleted, which was part of the change set cart; lib live 0; flags old 1; Failed acme/lib was deleted, which was part of the change set cart",
		},
		"one is aborted": {
			func(s *stage) { steer(s, lib, registry.Abort) },
			"route 2 failed: aborted by bob; lib 2 failed: aborted by bob; flags old 1; Failed aborted by bob",
		},
		"one is promoted": {
			func(s *stage) { steer(s, lib, registry.Promote) },
			"route live 2; lib live 2; flags new 2; Live",
		},
		"it is rolled back": {
			func(s *stage) {
				if _, err := s.RollbackChangeSet(s.t.Context(), registry.ChangeSetRollback{Tenant: "acme", Name: "cart", Author: "bob", Note: "carts lost", By: everybody}); err != nil {
					s.t.Fatal(err)
				}
			},
			"route 2 failed: rolled back by bob: carts lost; lib 2 failed: rolled back by bob: carts lost; flags old 1; Failed rolled back by bob: carts lost",
		},
		"it is retried": {
			func(s *stage) {
				steer(s, route, registry.Abort)
				steer(s, lib, registry.Retry)
				s.pass(4 * time.Minute)
			},
			"route live 2; lib live 2; flags new 2; Live",
		},
		"its value is written": {
			func(s *stage) {
				if _, _, err := s.PutValue(s.t.Context(), registry.PutValue{Key: flags, Content: []byte("other"), Author: "bob", By: everybody}); err != nil {
					s.t.Fatal(err)
				}
				s.pass(4 * time.Minute)
			},
			"route live 2; lib live 2; flags new 3; Live",
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				stop := s.conduct()
				defer stop()
				s.live(route, lib)
				req := set(twoSteps(), "new", route, lib)
				for i := range req.Scripts {
					req.Scripts[i].Settings = &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "it works"}}}}
				}
				s.publishSet(req)
				s.pass(20 * time.Second)
				c.during(s)
				s.pass(40 * time.Second)
				if c.want == "" { // which agent it is depends on the hash
					if got := s.where(route, lib); strings.Count(got, "ended, lost the tenant's process") != 3 || !strings.Contains(got, "; flags old 1; Failed ") {
						t.Errorf("%s", got)
					}
					return
				}
				s.wantWhere("at the end", c.want, route, lib)
			})
		})
	}
}

// TestAChangeSetGoesBack: a rollback of one that is live takes one transaction for all of it.
func TestAChangeSetGoesBack(t *testing.T) {
	play(t, 4, func(s *stage) {
		stop := s.conduct()
		defer stop()
		s.live(route)
		s.publishSet(set(nil, "new", route, lib)) // lib is new; without tests and a plan it is live at once
		s.pass(time.Second)
		s.wantWhere("live", "route live 2; lib live 1; flags new 2; Live", route, lib)
		back := func(force bool) error {
			_, err := s.RollbackChangeSet(s.t.Context(), registry.ChangeSetRollback{Tenant: "acme", Name: "cart", Author: "bob", By: access.Everybody("test"), Force: force})
			return err
		}
		s.publish(route, "newer", nil)
		if err := back(false); script.KindOf(err) != script.Conflict {
			t.Errorf("a rollback past a newer version: %v", err)
		}
		s.pass(time.Second)
		s.wantWhere("not rolled back", "route live 3; lib live 1; flags new 2; Live", route, lib)
		if err := back(true); err != nil {
			t.Fatal(err)
		}
		s.pass(time.Second)
		s.wantWhere("rolled back", "route live 1; lib live 1; flags old 1; RolledBack rolled back by bob", route, lib)
		r, l := s.release(route), s.release(lib)
		if r.Hold == nil || l.Enabled || r.Revision != l.Revision {
			t.Errorf("held %v at revision %d, lib is enabled %v at revision %d", r.Hold, r.Revision, l.Enabled, l.Revision)
		}
		_, err := s.PublishChangeSet(s.t.Context(), set(nil, "newest", route, lib))
		if script.KindOf(err) != script.Denied || script.AsError(err).Field != script.FieldHold {
			t.Errorf("a change set with a script that is held: %v", err)
		}
	})
}

// TestAChangeSetGoesForwardAgain: after a rollback it lifts the holds, and is a candidate as a whole. While it is on
// trial, and if it fails, the versions before run everywhere.
func TestAChangeSetGoesForwardAgain(t *testing.T) {
	for source, want := range map[string]struct{ onTrial, failed, live string }{
		"new": { // the newest version, which was rolled back
			"route 2 in step 1: the pause of step 1 goes on; lib 2 in step 1: the pause of step 1 goes on; flags old 1; OnTrial",
			"route 2 failed: aborted by bob; lib 2 failed: aborted by bob; flags old 1; Failed aborted by bob",
			"route live 2; lib live 2; flags new 3; Live",
		},
		"fixed": {
			"route 3 in step 1: the pause of step 1 goes on; lib 3 in step 1: the pause of step 1 goes on; flags old 1; OnTrial",
			"route 3 failed: aborted by bob; lib 3 failed: aborted by bob; flags old 1; Failed aborted by bob",
			"route live 3; lib live 3; flags fixed 3; Live",
		},
	} {
		t.Run(source, func(t *testing.T) {
			play(t, 10, func(s *stage) {
				stop := s.conduct()
				defer stop()
				everybody := access.Everybody("test")
				s.live(route, lib)
				s.publishSet(set(nil, "new", route, lib))
				s.pass(time.Second)
				if _, err := s.RollbackChangeSet(s.t.Context(), registry.ChangeSetRollback{Tenant: "acme", Name: "cart", Author: "bob", By: everybody}); err != nil {
					t.Fatal(err)
				}
				wantRuns := func(when string) {
					for _, name := range []script.Name{route, lib} {
						if r := s.release(name); r.Active.Number != 1 || r.Hold != nil {
							t.Errorf("%s: %s runs version %d, held %v", when, name, r.Active.Number, r.Hold)
						}
					}
				}
				req := set(twoSteps(), source, route, lib)
				req.LiftHold = true
				s.publishSet(req)
				s.pass(5 * time.Second)
				s.wantWhere("on trial", want.onTrial, route, lib)
				s.wantTogether(route, lib)
				wantRuns("on trial")
				if _, err := s.Steer(s.t.Context(), registry.SteerRequest{Write: registry.Write{Name: lib, Author: "bob", By: everybody}, Steering: registry.Abort}); err != nil {
					t.Fatal(err)
				}
				s.pass(time.Second)
				s.wantWhere("given up", want.failed, route, lib)
				wantRuns("given up")
				req.LiftHold = false
				s.publishSet(req)
				s.pass(4 * time.Minute)
				s.wantWhere("at the end", want.live, route, lib)
			})
		})
	}
}

// TestOlderAgentsAndChangeSets: agents that do not know change sets hold them up.
func TestOlderAgentsAndChangeSets(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.change(func() { s.setless = func(agent string) bool { return agent == "n1" } })
		stop := s.conduct()
		defer stop()
		s.live(route, lib)
		s.publishSet(set(twoSteps(), "new", route, lib))
		s.pass(20 * time.Second)
		why := "1 of 4 agents do not know change sets: upgrade agentd there"
		s.wantWhere("with an old agent", fmt.Sprintf("route 2 in step 0: %s; lib 2 in step 0: %s; flags old 1; OnTrial", why, why), route, lib)
		s.change(func() { s.setless, s.lives["n1"] = nil, "upgraded" })
		s.pass(4 * time.Minute)
		s.wantWhere("upgraded", "route live 2; lib live 2; flags new 2; Live", route, lib)
	})
}

// TestAFrozenChangeSet: it is refused while the registry is frozen, and one on trial waits, also where
// its values alone are frozen.
func TestAFrozenChangeSet(t *testing.T) {
	play(t, 4, func(s *stage) {
		stop := s.conduct()
		defer stop()
		s.live(route, lib)
		s.publishSet(set(twoSteps(), "new", route, lib))
		s.pass(5 * time.Second)
		if _, err := s.Freeze(s.t.Context(), registry.FreezeRequest{By: access.Everybody("test"), Author: "eve", Except: []string{"acme/route", "acme/lib"}}); err != nil {
			t.Fatal(err)
		}
		s.pass(5 * time.Minute)
		if got := s.where(route, lib); !strings.Contains(got, "route 2 in step 1: the registry is frozen by eve") || !strings.Contains(got, "flags old 1; OnTrial") {
			t.Errorf("frozen: %s", got)
		}
		other := set(nil, "other", route)
		other.Name = "other"
		if _, err := s.PublishChangeSet(s.t.Context(), other); !script.IsFrozen(err) {
			t.Errorf("a change set while the registry is frozen: %v", err)
		}
		if _, err := s.Thaw(s.t.Context(), access.Everybody("test"), "eve", ""); err != nil {
			t.Fatal(err)
		}
		s.pass(5 * time.Minute)
		s.wantWhere("thawed", "route live 2; lib live 2; flags new 2; Live", route, lib)
	})
}
