package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestQueryNames(t *testing.T) {
	for _, test := range []struct {
		agents []string
		names  bool
	}{
		{nil, true},
		{[]string{"edge-1"}, true},
		{[]string{"edge-2", "edge-1"}, true},
		{[]string{"edge-*"}, true},
		{[]string{"*"}, true},
		{[]string{"edge"}, false},
		{[]string{"edge-1.example"}, false},
		{[]string{"["}, false},
		{[]string{""}, false},
	} {
		if got := wire.QueryNames(&eventv1.Query{Agents: test.agents}, "edge-1"); got != test.names {
			t.Errorf("%q: %v", test.agents, got)
		}
	}
}

// TestAnswerBytes: what a part says counts, and not what every part has.
func TestAnswerBytes(t *testing.T) {
	logs := &eventv1.RecentLogs{Lines: []*eventv1.LogLine{{Message: strings.Repeat("x", 1000)}}}
	bare := &eventv1.Answer{Kind: &eventv1.Answer_RecentLogs{RecentLogs: logs}}
	full := proto.CloneOf(bare)
	full.Fleet, full.Id, full.Agent, full.Number, full.Last, full.UnknownKind = "fleet", "id", "agent", 1<<20, true, true
	full.Error = &scriptv1.Error{Message: strings.Repeat("y", 1000)}
	if one, other := wire.AnswerBytes(bare), wire.AnswerBytes(full); one != other || one < 1000 || one > 1200 {
		t.Errorf("%d and %d bytes", one, other)
	}
	if n := wire.AnswerBytes(&eventv1.Answer{}); n <= 0 {
		t.Errorf("an empty part counts for %d bytes", n)
	}
}

func TestCompileGrep(t *testing.T) {
	for _, expression := range []string{"", "timeout", "^(a|b)+ [0-9]{1,3}$", "(?i)FAIL", strings.Repeat("x", 900)} {
		if re, err := wire.CompileGrep(expression); err != nil || re.String() != expression {
			t.Errorf("%.80q: %v", expression, err)
		}
	}
	for _, expression := range []string{"(", `\1`, "a{2000}", "a{900}b{900}", "((a{10}){10}){20}", "(?=x)", strings.Repeat("x", 1025)} {
		_, err := wire.CompileGrep(expression)
		if e := script.AsError(err); e == nil || e.Kind != script.Invalid || e.Field != "grep" {
			t.Errorf("%.80q: %v", expression, err)
		}
	}
}
