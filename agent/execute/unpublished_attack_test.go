package execute_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	"github.com/scriptorium-dev/scriptorium/agent/tryout"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTriesOfManyValues: a result of very many values fits into a part of an answer, or is left out, and very many arguments
// are an error of the call.
func TestTriesOfManyValues(t *testing.T) {
	n := &node{}
	n.start(t, lua.New(), 1<<20, 1, 16)
	many := &eventv1.TryCall{Args: slices.Repeat([][]byte{[]byte("1")}, 1<<20)}
	found, err := tryout.Run(t.Context(), n.Executor, &eventv1.TryScript{
		Tenant: "acme", Name: "draft", Engine: "fake", Entrypoint: "handle", Calls: []*eventv1.TryCall{{}, {Args: [][]byte{[]byte("120000")}}, many},
		Source: []byte(`function handle(n)
  if type(n) ~= "number" then n = 3000 end
  local t = {}
  for i = 1, n do t[i] = 1 end
  return unpack(t)
end`),
		Settings: wire.FromSettings(script.Settings{Spec: script.Spec{Limits: script.MaxLimits()}}),
	})
	if err != nil || len(found.Results) != 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	for i, r := range found.Results {
		if size := proto.Size(r); size > answer.MaxPart {
			t.Errorf("the result of call %d has %d bytes", i, size)
		}
		if kind := script.Kind(r.GetError().GetKind()); kind != []script.Kind{"", script.Script, script.Invalid}[i] {
			t.Errorf("call %d: %v", i, r.GetError())
		}
	}
}
