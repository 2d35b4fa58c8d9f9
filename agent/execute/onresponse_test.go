package execute_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// about returns the call that is about the response to a request that an earlier call was about.
func about(name string, reply *gateway.Reply) *gateway.Call {
	call := &gateway.Call{Script: name, OnResponse: true, Edition: reply.Edition}
	if call.Edition == nil {
		call.Script = fmt.Sprintf("%s@%d", name, reply.Version)
	}
	return call
}

// TestOnResponseOfOneVersion: the version that has decided about a request sees the response, whatever
// is live by then.
func TestOnResponseOfOneVersion(t *testing.T) {
	n := newNode(t, 1<<20, 2, 2)
	busy := script.OnError{Status: 429}
	config := func(text string) func(*script.Release) {
		return func(r *script.Release) { r.Settings.Config, r.Settings.OnError = []byte(text), busy }
	}
	n.publish("a", config(`{"edition":1}`), "responds one")
	n.publish("none", nil, "says nothing")
	var first, named, none gateway.Reply
	for ref, reply := range map[string]*gateway.Reply{"acme/a": &first, "acme/a@1": &named, "acme/none": &none} {
		if err := n.Execute(t.Context(), &gateway.Call{Script: ref}, reply); err != nil {
			t.Fatal(err)
		}
	}
	if !first.OnResponse || first.Edition == nil || !named.OnResponse || none.OnResponse || none.Edition != nil {
		t.Fatalf("%+v, %+v, %+v", first, named, none)
	}
	responds := func(name string, to *gateway.Reply, want ...string) {
		t.Helper()
		var reply gateway.Reply
		if err := n.Execute(t.Context(), about(name, to), &reply); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range reply.Len() {
			got = append(got, string(reply.Value(i)))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || reply.Version != to.Version || len(want) > 0 && reply.OnError != busy {
			t.Errorf("version %d: %q, %+v; want %q of %d", reply.Version, got, reply.OnError, want, to.Version)
		}
	}
	responds("acme/none", &none)
	for change, how := range map[string]func(){
		"published": func() { n.publish("a", config(`{"edition":2}`), "responds one", "two") },
		"disabled":  func() { n.publish("a", func(r *script.Release) { r.Enabled = false }, "responds one", "two") },
		"deleted":   func() { n.table.Update(nil, []script.Name{{Tenant: "acme", Script: "a"}}) },
	} {
		n.publish("a", config(`{"edition":1}`), "responds one")
		how()
		t.Run(change, func(*testing.T) { responds("acme/a", &first, "responds one", `{"edition":1}`) })
	}

	// A version that is not the live one is called by its number, and has to be there still.
	n.publish("b", nil, "responds one", "two")
	var retained, reply gateway.Reply
	if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/b@1"}, &retained); err != nil || retained.Edition != nil {
		t.Fatalf("%v, %+v", err, retained)
	}
	n.publish("b", nil, "responds one", "two", "three")
	if err := n.Execute(t.Context(), about("acme/b", &retained), &reply); err != nil || reply.Version != 1 {
		t.Errorf("%v, of version %d", err, reply.Version)
	}
	n.publish("b", func(r *script.Release) { r.Enabled = false }, "responds one")
	if err := n.Execute(t.Context(), about("acme/b", &retained), &reply); script.KindOf(err) != script.Disabled {
		t.Errorf("a disabled script: %v", err)
	}
}
