package script

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// Spec is what a version runs with, beside its source: together they are the version, and
// neither changes.
type Spec struct {
	Limits  Limits
	Trigger Trigger
	// OnError is what a gateway gets if the script makes no decision.
	OnError OnError
	// Decisions say which calls are recorded; nil is what the tenant's settings say.
	Decisions *Decisions
	// Config is a JSON object that the script reads as `config`; nil means {}.
	Config json.RawMessage
	// Tests are what the version must pass on each agent before it goes live on any.
	Tests []Test
	// Library: the version is a chunk that returns what require gives, and nobody calls it.
	Library bool
	// Libraries are all that the version requires, with their sources, sorted by their names: a version
	// does not change when a library does. A library has none: they are those of who requires it.
	Libraries []Library
	// Artifact is where the registry fetched the source, or is to fetch it; see CheckArtifact. It is "" for a source
	// that came with its publish.
	Artifact string
	// Runtime holds the options of the version's engine.
	Runtime Runtime
	// Personal makes it the personal version of another script, or is nil.
	Personal *Personal
}

// Edition is a version with what it is made of.
type Edition struct {
	Version
	Spec   Spec
	Source []byte // nil where it is not needed
}

// specDocument is the JSON of a Spec. Its bytes are hashed: a field that is added must be
// left out while it is not set.
type specDocument struct {
	Trigger   string             `json:"trigger,omitempty"` // the event
	Limits    limitsDocument     `json:"limits,omitzero"`
	Config    json.RawMessage    `json:"config,omitempty"`
	Tests     []testDocument     `json:"tests,omitempty"`
	OnError   onErrorDocument    `json:"onError,omitzero"`
	Priority  int                `json:"priority,omitempty"`
	Match     *matchDocument     `json:"match,omitempty"`
	Decisions *decisionsDocument `json:"decisions,omitempty"`
	Library   bool               `json:"library,omitempty"`
	Libraries []libraryDocument  `json:"libraries,omitempty"`
	Personal  *personalDocument  `json:"personal,omitempty"`
	Wasm      wasmDocument       `json:"wasm,omitzero"`
	Rego      regoDocument       `json:"rego,omitzero"`
	Artifact  string             `json:"artifact,omitempty"`
}

type wasmDocument struct {
	Reuse bool `json:"reuse,omitempty"`
}

type regoDocument struct {
	Input  string `json:"input,omitempty"`
	Target string `json:"target,omitempty"`
	V0     bool   `json:"v0,omitempty"`
}

type personalDocument struct {
	Of    string    `json:"of"`
	Key   string    `json:"key"`
	From  KeySource `json:"from,omitempty"`
	Until time.Time `json:"until"`
}

type libraryDocument struct {
	Name    string `json:"name"`
	Version uint64 `json:"version"`
	Source  string `json:"source"`
}

type decisionsDocument struct {
	Sample float64  `json:"sample,omitempty"`
	Errors bool     `json:"errors,omitempty"`
	Mask   []string `json:"mask,omitempty"`
	Fields []string `json:"fields,omitempty"`
}

type matchDocument struct {
	Hosts        []string          `json:"hosts,omitempty"`
	PathPrefixes []string          `json:"pathPrefixes,omitempty"`
	Methods      []string          `json:"methods,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
}

type limitsDocument struct {
	Instructions uint64        `json:"instructions,omitempty"`
	Timeout      time.Duration `json:"timeoutNanoseconds,omitempty"`
	SourceBytes  int           `json:"sourceBytes,omitempty"`
	StringBytes  int           `json:"stringBytes,omitempty"`
	ResultBytes  int           `json:"resultBytes,omitempty"`
	LogBytes     int           `json:"logBytes,omitempty"`
	Concurrency  int           `json:"concurrency,omitempty"`
	Coroutines   bool          `json:"coroutines,omitempty"`
	WasmMemory   int           `json:"wasmMemory,omitempty"`
}

type onErrorDocument struct {
	Policy string `json:"policy,omitempty"`
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
}

type testDocument struct {
	Name    string          `json:"name"`
	Request json.RawMessage `json:"request,omitempty"`
	Expect  json.RawMessage `json:"expect,omitempty"`
	Error   Kind            `json:"error,omitempty"`
}

// Document returns s as JSON, always the same for the same Spec. The JSON in it must be valid.
func (s Spec) Document() []byte {
	d := specDocument{
		Trigger: s.Trigger.Event, Limits: limitsDocument(s.Limits), Config: s.Config, OnError: onErrorDocument(s.OnError), Priority: s.Trigger.Priority,
		Library: s.Library, Wasm: wasmDocument(s.Runtime.Wasm), Rego: regoDocument(s.Runtime.Rego), Artifact: s.Artifact,
	}
	if m := s.Trigger.Match; !m.IsZero() {
		d.Match = new(matchDocument(m))
	}
	if s.Decisions != nil {
		d.Decisions = new(decisionsDocument(*s.Decisions))
	}
	for _, t := range s.Tests {
		d.Tests = append(d.Tests, testDocument(t))
	}
	for _, l := range s.Libraries {
		d.Libraries = append(d.Libraries, libraryDocument{l.Name.String(), l.Version, l.Source})
	}
	if p := s.Personal; p != nil {
		d.Personal = &personalDocument{p.Of, p.Key, p.From, p.Until.UTC()}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(d); err != nil { // its JSON is not valid: nothing else can fail
		return nil
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// ParseSpec reads a document.
func ParseSpec(document []byte) (Spec, error) {
	var d specDocument
	if err := json.Unmarshal(document, &d); err != nil {
		return Spec{}, Errorf(Internal, "", "the document of a version's spec cannot be read: %w", err)
	}
	s := Spec{
		Limits: Limits(d.Limits), Trigger: Trigger{Event: d.Trigger, Priority: d.Priority}, Config: d.Config, OnError: OnError(d.OnError), Library: d.Library,
		Runtime: Runtime{Wasm: WasmOptions(d.Wasm), Rego: RegoOptions(d.Rego)}, Artifact: d.Artifact,
	}
	if d.Match != nil {
		s.Trigger.Match = Match(*d.Match)
	}
	if d.Decisions != nil {
		s.Decisions = new(Decisions(*d.Decisions))
	}
	for _, t := range d.Tests {
		s.Tests = append(s.Tests, Test(t))
	}
	for _, l := range d.Libraries {
		name, err := ParseName(l.Name)
		if err != nil {
			return Spec{}, Errorf(Internal, "", "the document of a version's spec has a library without a name: %w", err)
		}
		s.Libraries = append(s.Libraries, Library{Name: name, Version: l.Version, Digest: DigestOf([]byte(l.Source)), Source: InternSource(l.Source)})
	}
	if p := d.Personal; p != nil {
		s.Personal = &Personal{p.Of, p.Key, p.From, p.Until}
	}
	return s, nil
}

// Equal reports whether both say the same, as text.
func (s Spec) Equal(t Spec) bool {
	return s.Limits == t.Limits && s.Trigger.Equal(t.Trigger) && s.OnError == t.OnError && bytes.Equal(s.Config, t.Config) &&
		SameTests(s.Tests, t.Tests) && s.Decisions.Equal(t.Decisions) && s.Library == t.Library && slices.Equal(s.Libraries, t.Libraries) &&
		s.Runtime == t.Runtime && s.Artifact == t.Artifact && s.Personal.Equal(t.Personal)
}
