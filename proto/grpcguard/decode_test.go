package grpcguard_test

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// TestDecoded: what a message takes once it is decoded is not more than what its caller is
// charged for, and that is not much more.
func TestDecoded(t *testing.T) {
	const elements, slack = 100_000, 16 << 10
	line := &workerv1.LogLine{Level: "info", Message: "hello", Script: "route", Version: 7}
	for name, m := range map[string]proto.Message{
		"empty texts":            &agentv1.ExecuteRequest{Args: make([][]byte, elements)},
		"short texts":            &agentv1.ExecuteRequest{Args: slices.Repeat([][]byte{[]byte("12345678")}, elements)},
		"empty messages":         &workerv1.LogRequest{Lines: slices.Repeat([]*workerv1.LogLine{{}}, elements)},
		"messages":               &workerv1.LogRequest{Lines: slices.Repeat([]*workerv1.LogLine{line}, elements)},
		"numbers":                &workerv1.CountRequest{Counts: slices.Repeat([]*workerv1.Count{{Calls: 1}}, elements)},
		"messages within others": &agentv1.ExecuteStreamRequest{Call: &agentv1.ExecuteRequest{Args: make([][]byte, elements)}},
		"one text":               &agentv1.ExecuteRequest{Args: [][]byte{bytes.Repeat([]byte("1"), elements)}},
	} {
		text, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		into := m.ProtoReflect().New().Interface()
		before := memtest.Heap()
		if err := proto.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
		takes := memtest.Heap() - before - int64(len(text))
		runtime.KeepAlive(into)
		charged := grpcguard.Decoded(text, into)
		t.Logf("%s: %d bytes of text; %d more are charged, and %d taken", name, len(text), charged, takes)
		if takes > charged+slack || charged > 4*max(takes, slack) {
			t.Errorf("%s: %d bytes are charged, and %d taken", name, charged, takes)
		}
	}
	if charged := grpcguard.Decoded([]byte{0xff, 0xff}, &agentv1.ExecuteRequest{}); charged != 0 {
		t.Errorf("what is malformed is charged %d", charged)
	}
}
