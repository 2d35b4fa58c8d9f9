package fanout

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// FuzzReadLogs: whatever comes from NATS is refused or within bounds, and steers no
// terminal.
func FuzzReadLogs(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	for _, m := range []*eventv1.Logs{
		{Fleet: "F1", Agent: "a", Dropped: 3, Lines: []*eventv1.LogLine{
			{Time: timestamppb.New(now), Tenant: "acme", Name: "route", Version: 1, Level: "info", Message: "x\x1b[0m\u202ey", TraceId: strings.Repeat("0a", 16)},
			{Tenant: "acme", Name: "route", Level: "error", Message: strings.Repeat("ß", 3000)},
		}},
		{Fleet: "F2", Agent: "a"},
	} {
		seed, err := seal.SealLogs(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("a", seed)
	}
	f.Add("", []byte{})
	f.Fuzz(func(t *testing.T, agent string, data []byte) {
		logs, ok, err := readLogs("F1", agent, data, now)
		if err != nil || !ok {
			return
		}
		if logs.Agent == "" || logs.Agent != agent || len(logs.Lines) > maxLogLines || logs.Dropped > maxDropped+maxLogLines {
			t.Errorf("accepted %+v", logs)
		}
		for _, l := range logs.Lines {
			if l.Script.Validate() != nil || l.Time.Sub(now).Abs() > maxClockSkew || l.TraceID != "" && len(l.TraceID) != traceIDLen {
				t.Errorf("accepted the line %+v", l)
			}
			// Escapes of four bytes have ten.
			if !utf8.ValidString(l.Message) || len(l.Message) > 10*maxLogLine+8 || strings.ContainsFunc(l.Message, notOfMessage) {
				t.Errorf("accepted the message %q", l.Message)
			}
		}
	})
}
