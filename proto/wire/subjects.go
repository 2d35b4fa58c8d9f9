package wire

import (
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Subjects are the NATS subjects of one fleet.
type Subjects struct {
	// Prefix comes before every subject; "scriptorium" unless configured.
	Prefix string
}

// DefaultPrefix of the subjects.
const DefaultPrefix = "scriptorium"

// Event is where the events of a group go.
func (s Subjects) Event(group string) string { return s.Prefix + ".feed." + group + ".event" }

// Beacon is where the beacons of a group go.
func (s Subjects) Beacon(group string) string { return s.Prefix + ".feed." + group + ".beacon" }

// Feed matches both of them, so that one subscription keeps their order.
func (s Subjects) Feed(group string) string { return s.Prefix + ".feed." + group + ".*" }

// RollCall is where roll calls go.
func (s Subjects) RollCall() string { return s.Prefix + ".rollcall" }

// Status is where the agent reports.
func (s Subjects) Status(agent string) string { return s.Prefix + ".status." + agent }

// AllStatus matches every agent's reports.
func (s Subjects) AllStatus() string { return s.Prefix + ".status.>" }

// Tail is where a registry asks for what scripts log.
func (s Subjects) Tail() string { return s.Prefix + ".tail" }

// Logs is where the agent sends what scripts log.
func (s Subjects) Logs(agent string) string { return s.Prefix + ".logs." + agent }

// AllLogs matches what every agent sends.
func (s Subjects) AllLogs() string { return s.Prefix + ".logs.>" }

// Recall is where a registry asks for copies of what it has lost.
func (s Subjects) Recall() string { return s.Prefix + ".recall" }

// Copies is where the agent sends them.
func (s Subjects) Copies(agent string) string { return s.Prefix + ".copies." + agent }

// AllCopies matches those of every agent.
func (s Subjects) AllCopies() string { return s.Prefix + ".copies.>" }

// Query is where a registry asks agents a question.
func (s Subjects) Query() string { return s.Prefix + ".query" }

// Answers is where the agent sends its answers.
func (s Subjects) Answers(agent string) string { return s.Prefix + ".answers." + agent }

// AllAnswers matches those of every agent.
func (s Subjects) AllAnswers() string { return s.Prefix + ".answers.>" }

// Content is where a registry sends what belongs to a query and is for the agent alone.
func (s Subjects) Content(agent string) string { return s.Prefix + ".content." + agent }

// Decisions is the subject of an agent's decision records of a script. The agent comes last, since its name may have dots.
func (s Subjects) Decisions(name script.Name, agent string) string {
	return s.Prefix + ".decisions." + name.Tenant + "." + name.Script + "." + agent
}

// NoName stands for tenant and script in the subject of a decision that names none: no name begins so.
const NoName = "_"

// Acks is the beginning of the subjects where JetStream acknowledges what the agent has sent.
func (s Subjects) Acks(agent string) string { return s.Prefix + ".acks." + agent }

// MaxRecall is how many keys a Recall has at most.
const MaxRecall = 16

// SourceKey is the key of a source in a Recall, beside those of objects.
func SourceKey(d script.Digest) string { return "sources/" + d.String() }

// ToSourceKey is the reverse of SourceKey; ok is false for the key of an object.
func ToSourceKey(key string) (d script.Digest, ok bool) {
	text, ok := strings.CutPrefix(key, "sources/")
	if !ok {
		return d, false
	}
	d, err := script.ParseDigest(text)
	return d, err == nil
}
