package fanout

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what an agent sends of its scripts' logs: what is beyond them does not
// come from an agent of ours.
const (
	maxLogsBytes = 1 << 20
	maxLogLines  = 4096
	maxLogLine   = 4096 // bytes of a message; more is cut
	maxDropped   = 1 << 40
	maxDroppedOf = 1024
	traceIDLen   = 32
	// maxClockSkew is how far from ours an agent's clock may be; beyond it, the time of
	// arrival says more.
	maxClockSkew = 24 * time.Hour
)

// heard is what an agent has sent.
type heard struct {
	fleet.Logs                        // Dropped is of all that is read along
	droppedOf  map[script.Name]uint64 // Dropped by script, or by tenant alone; nil if the agent does not say
	unreadable uint64                 // lines that cannot be read; nobody knows whose
}

// droppedFor returns how many lines were left out that a reader would have got, or may
// have got if nobody can say whose they were.
func (h *heard) droppedFor(of script.Name) uint64 {
	if h.droppedOf == nil {
		return h.Dropped + h.unreadable
	}
	n := h.unreadable
	for name, lines := range h.droppedOf {
		if name.Tenant == of.Tenant && (of.Script == "" || name.Script == "" || name.Script == of.Script) {
			n += lines
		}
	}
	return n
}

// readLogs reads what came on the logs subject of the agent. ok is false for what is
// of another fleet. Lines that cannot be read count as dropped.
func readLogs(fleetID, agent string, data []byte, now time.Time) (logs heard, ok bool, err error) {
	if len(data) > maxLogsBytes {
		return heard{}, false, script.Errorf(script.Invalid, "logs", "have %d bytes, at most %d are allowed", len(data), maxLogsBytes)
	}
	var m eventv1.Logs
	if err := seal.OpenLogs(data, &m); err != nil {
		return heard{}, false, err
	}
	if agent == "" || len(agent) > session.MaxAgentBytes || m.GetAgent() != agent || strings.ContainsFunc(agent, notPrintable) {
		return heard{}, false, script.Errorf(script.Invalid, "agent", "%.80q sends logs on the subject of %.80q", m.GetAgent(), agent)
	}
	if n := len(m.GetLines()); n > maxLogLines {
		return heard{}, false, script.Errorf(script.Invalid, "lines", "are %d, at most %d are allowed", n, maxLogLines)
	}
	if m.GetFleet() != fleetID {
		return heard{}, false, nil
	}
	if n := len(m.GetDroppedOf()); n > maxDroppedOf {
		return heard{}, false, script.Errorf(script.Invalid, "dropped_of", "has %d scripts, at most %d are allowed", n, maxDroppedOf)
	}
	logs.Agent, logs.Dropped, logs.Lines = agent, min(m.GetDropped(), maxDropped), make([]fleet.LogLine, 0, len(m.GetLines()))
	for _, d := range m.GetDroppedOf() {
		if logs.droppedOf == nil {
			logs.droppedOf = make(map[script.Name]uint64, len(m.GetDroppedOf()))
		}
		name := script.Name{Tenant: d.GetTenant(), Script: d.GetName()}
		logs.droppedOf[name] = min(logs.droppedOf[name]+min(d.GetCount(), maxDropped), maxDropped)
	}
	for _, line := range m.GetLines() {
		if read, ok := ReadLogLine(line, now, maxClockSkew); ok {
			logs.Lines = append(logs.Lines, read)
		} else {
			logs.unreadable++
		}
	}
	return logs, true, nil
}

// ReadLogLine reads one line of an agent; ok is false if it does not say what logged it. A time that is
// further from now than the skew becomes now.
func ReadLogLine(m *eventv1.LogLine, now time.Time, skew time.Duration) (line fleet.LogLine, ok bool) {
	line = fleet.LogLine{
		Time:    m.GetTime().AsTime(),
		Script:  script.Name{Tenant: m.GetTenant(), Script: m.GetName()},
		Version: m.GetVersion(),
		Level:   engine.Level(m.GetLevel()),
		Message: cleanMessage(m.GetMessage()),
	}
	if line.Script.Validate() != nil {
		return fleet.LogLine{}, false
	}
	switch line.Level {
	case engine.Info, engine.Warn, engine.Error:
	default:
		return fleet.LogLine{}, false
	}
	if m.GetTime().CheckValid() != nil || now.Sub(line.Time).Abs() > skew {
		line.Time = now
	}
	if isTraceID(m.GetTraceId()) {
		line.TraceID = m.GetTraceId()
	}
	return line, true
}

func isTraceID(s string) bool {
	return len(s) == traceIDLen && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}

// cleanMessage bounds what a script has logged, and escapes what could steer the
// terminal of whoever reads it.
func cleanMessage(s string) string {
	if len(s) > maxLogLine {
		cut := maxLogLine
		for cut > maxLogLine-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if !strings.ContainsFunc(s, notOfMessage) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if notOfMessage(r) {
			quoted := strconv.QuoteRuneToGraphic(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func notOfMessage(r rune) bool { return r != '\n' && r != '\t' && notPrintable(r) }

func notPrintable(r rune) bool { return !unicode.IsGraphic(r) }
