package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// large is a content that does not travel with its object.
var large = strings.Repeat("large ", maxInlined/4)

// reading is a Lua script that says how long the value of the key is, and which keys there are.
func reading(key string) string {
	return fmt.Sprintf(`return #(kv.get(%q) or "") .. " " .. table.concat(kv.keys(), " ")`, key)
}

// together publishes a version of each script, and values that are staged for them: the key "a" has
// the content small, and "b" the large one.
func (r *registry) together(name string, change func(*script.Release), scripts map[string]string) {
	small := "small"
	r.mu.Lock()
	r.sources[script.DigestOf([]byte(small))] = []byte(small)
	attempt := uint64(r.head) + 1
	r.mu.Unlock()
	for scriptName, source := range scripts {
		set := &script.Membership{Name: name, Attempt: attempt, Scripts: []string{"cart", "route"}}
		for i, content := range []string{small, large} {
			set.Values = append(set.Values, script.StagedValue{Key: string(rune('a' + i)), Digest: script.DigestOf([]byte(content)), Size: len(content)})
		}
		r.offer(scriptName, source, func(rel *script.Release) {
			rel.Retained[len(rel.Retained)-1].Engine, rel.Candidate.Version.Engine = "lua", "lua"
			rel.Candidate.Set = set
			if rel.Untried() {
				rel.Active = rel.Candidate.Version
			}
			if change != nil {
				change(rel)
			}
		})
	}
}

// sends says which contents the registry can send.
func (r *registry) sends(content string, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sources, script.DigestOf([]byte(content)))
	if there {
		r.sources[script.DigestOf([]byte(content))] = []byte(content)
	}
}

func withLua(cfg *agent.Config) { cfg.Engines = []engine.Engine{echo{}, lua.New()} }

func ofLarge(keys string) string { return fmt.Sprintf(`"%d %s"`, len(large), keys) }

// failed returns what the last status says of why the object is not live.
func (all *reports) failed(key string) string {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, f := range all.last.GetFailures() {
		if f.GetKey() == key {
			return f.GetError().GetMessage()
		}
	}
	return ""
}

func blobOf(dir, content string) string {
	digits := strings.TrimPrefix(script.DigestOf([]byte(content)).String(), "sha256:")
	return filepath.Join(dir, "blobs", digits[:2], digits)
}

// TestAChangeSetOnOneNode: a candidate is tested and runs once all that is staged for it is there.
func TestAChangeSetOnOneNode(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", `"old"`)
	r.put("acme/a", "content that is live")
	r.put("acme/c", "another")
	r.start()
	told := listen(t, r)
	dir := t.TempDir()
	n := startNode(t, r, dir, withLua)
	n.answers(t, r, "acme/route", `"old"`)
	eventually(t, r, "the agent says that it knows change sets", func() bool {
		told.mu.Lock()
		defer told.mu.Unlock()
		return told.last.GetKnowsChangeSets()
	})
	// What is large is fetched. As long as that fails, nothing of the candidate is live.
	r.together("cart-2", func(rel *script.Release) {
		rel.Settings.Tests = expecting(ofLarge("a b c"))
		rel.Candidate.Threshold = everywhere
	}, map[string]string{"route": reading("b")})
	eventually(t, r, "a status says what is missing", func() bool {
		return strings.Contains(told.failed("releases/acme/route"), "did not send its staged value")
	})
	n.is(t, "acme/route", `"old"`)
	if _, err := n.call(t, "acme/route@2"); script.KindOf(err) != script.NotFound {
		t.Errorf("the candidate is live: %v", err)
	}
	r.sends(large, true)
	attempt := r.releases["acme/route"].Candidate.Attempt
	told.want(t, r, "route", fmt.Sprintf("2/%d passed 0-0", attempt))
	n.is(t, "acme/route", ofLarge("a b c"))
	n.is(t, "acme/route@1", `"old"`)

	// It goes live: scripts read the values as they are from then on.
	r.put("acme/b", "b")
	r.revise("route", func(rel *script.Release) { rel.Active, rel.Candidate = rel.Candidate.Version, nil })
	n.answers(t, r, "acme/route", `"1 a b c"`)
	r.put("acme/b", "bb")
	n.answers(t, r, "acme/route", `"2 a b c"`)
	n.stop()
	if _, err := os.Stat(blobOf(dir, large)); !os.IsNotExist(err) {
		t.Errorf("what nothing needs any more is still on disk: %v", err)
	}
}

// TestAChangeSetFromDisk: an agent starts with registry and NATS down. What it has lost is fetched
// when they are back, and until then the candidate does not run.
func TestAChangeSetFromDisk(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", `"old"`)
	r.sends(large, true)
	r.start()
	told := listen(t, r)
	dir := t.TempDir()
	n := startNode(t, r, dir, withLua)
	n.answers(t, r, "acme/route", `"old"`)
	r.together("cart-2", func(rel *script.Release) { rel.Candidate.Threshold = everywhere },
		map[string]string{"route": reading("b"), "cart": reading("a")})
	for _, name := range []string{"acme/route", "acme/route@2"} {
		n.answers(t, r, name, ofLarge("a b"))
	}
	eventually(t, r, "it is on disk", func() bool {
		_, err := os.Stat(blobOf(dir, large))
		return err == nil && n.Executor().Position().Revision >= script.Revision(r.head)
	})
	n.stop()
	r.stop()

	n = startNode(t, r, dir, withLua)
	n.is(t, "acme/route", ofLarge("a b"))
	n.is(t, "acme/route@1", `"old"`)
	n.stop()

	if err := os.Remove(blobOf(dir, large)); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, r, dir, withLua)
	n.is(t, "acme/route", `"old"`)
	if _, err := n.call(t, "acme/cart"); script.KindOf(err) != script.Disabled {
		t.Errorf("a script without a version that runs: %v", err)
	}
	r.start()
	told = listen(t, r)
	n.answers(t, r, "acme/route", ofLarge("a b"))
	n.stop()

	// One that rots later is found when a call reads it, and nobody waits until it is there again.
	n = startNode(t, r, dir, withLua)
	if err := os.WriteFile(blobOf(dir, large), []byte("rotten"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.sends(large, false)
	if got, err := n.call(t, "acme/route"); err == nil || !strings.Contains(err.Error(), "lost on this agent and is being fetched again") {
		t.Errorf("a call that reads what is rotten: %s, %v", got, err)
	}
	r.sends(large, true)
	n.answers(t, r, "acme/route", ofLarge("a b"))
	eventually(t, r, "nothing fails", func() bool {
		told.mu.Lock()
		defer told.mu.Unlock()
		return len(told.last.GetFailures()) == 0 && slices.ContainsFunc(told.last.GetTrials(), func(t *eventv1.Trial) bool { return t.GetCalls() > 0 })
	})
}
