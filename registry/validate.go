package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what a request may say.
const (
	MaxAuthorBytes    = 128
	MaxNoteBytes      = 512
	MaxConfigBytes    = 64 << 10
	MaxOwnerBytes     = 256
	MinRequestIDBytes = 16
	MaxRequestIDBytes = 64
)

func (w Write) validate() error {
	if err := w.Name.Validate(); err != nil {
		return err
	}
	if err := validateAuthor(w.Author, w.Note); err != nil {
		return err
	}
	if err := validateExpected(w.ExpectedRevision, true); err != nil {
		return err
	}
	if err := validateText("owner", w.Owner, MaxOwnerBytes); err != nil {
		return err
	}
	return validateRequestID(w.RequestID)
}

// validate refuses what Write.validate does, and to create with a write that changes what there is.
func (a writeRequest) validate() error {
	if err := validateExpected(a.ExpectedRevision, a.change == script.ChangePublish); err != nil {
		return err
	}
	return a.Write.validate()
}

func validateExpected(revision script.Revision, creates bool) error {
	switch {
	case revision < script.Absent:
		return script.Errorf(script.Invalid, "expected_revision", "%d is negative: want a revision, 0 for any, or %d if there must be none", revision, script.Absent)
	case revision == script.Absent && !creates:
		return script.Errorf(script.Invalid, "expected_revision", "%d is for a write that creates, and this one does not: want the revision that you have read, or 0 for any", revision)
	}
	return nil
}

// meet refuses a write that expects another revision than the present one. exists is false for deleted objects, whose
// tombstones have a revision, too.
func meet(expected, present script.Revision, exists bool, what, again string) error {
	switch {
	case expected == script.Absent && exists:
		return script.Errorf(script.Conflict, "expected_revision", "%s is there already, at revision %d, and this write creates only: %s, or choose another name", what, present, again)
	case expected == 0 || expected == script.Absent || expected == present:
		return nil
	}
	return script.Errorf(script.Conflict, "expected_revision", "%s is at revision %d, not %d: %s", what, present, expected, again)
}

func validateAuthor(author, note string) error {
	if author == "" {
		return script.Errorf(script.Invalid, "author", "must say who asks for the change")
	}
	if err := validateText("author", author, MaxAuthorBytes); err != nil {
		return err
	}
	return validateText("note", note, MaxNoteBytes)
}

func validateRequestID(id string) error {
	if id == "" {
		return nil
	}
	if len(id) < MinRequestIDBytes {
		return script.Errorf(script.Invalid, "request_id", "has %d bytes, at least %d are needed: make it of random letters and digits", len(id), MinRequestIDBytes)
	}
	return validateText("request_id", id, MaxRequestIDBytes)
}

// validateText refuses what would garble a terminal or a log: authors and notes
// are shown to people.
func validateText(field, s string, most int) error {
	if len(s) > most {
		return script.Errorf(script.Invalid, field, "has %d bytes, at most %d are allowed", len(s), most)
	}
	if !utf8.ValidString(s) {
		return script.Errorf(script.Invalid, field, "is not valid UTF-8")
	}
	for _, c := range s {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return script.Errorf(script.Invalid, field, "contains the control character %U", c)
		}
	}
	return nil
}

// validateTime refuses what JSON does not have: whoever lists it with others would get nothing.
func validateTime(field string, t time.Time) error {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return script.Errorf(script.Invalid, field, "is in the year %d, which is not between 1 and 9999", year)
	}
	return nil
}

// validateSource checks what can be said of a source without the release's limits.
func validateSource(engine string, source []byte) error {
	if len(source) == 0 {
		return script.Errorf(script.Invalid, "source", "must not be empty")
	}
	if most := script.MaxSource(engine, source); len(source) > most {
		return script.Errorf(script.Invalid, "source", "has %d bytes: at most %d (%d MiB) are allowed, whatever its limits", len(source), most, most>>20)
	}
	return script.CheckSource(engine, source)
}

// validateSourceLimit checks the source against the limit that the release will have.
func validateSourceLimit(engine string, source []byte, limits script.Limits) error {
	if most := limits.SourceLimit(engine, source); len(source) > most {
		return script.Errorf(script.Invalid, "source", "has %d bytes, the script's limit is %d: raise limits.sourceBytes, at most %d MiB",
			len(source), most, script.MaxSource(engine, source)>>20)
	}
	return nil
}

// normalizeSettings validates s and brings it into the one form in which equal
// settings are equal.
func normalizeSettings(s script.Settings, of script.Name) (script.Settings, error) {
	if s.HistoryLimit < 0 || s.HistoryLimit > script.MaxHistoryLimit {
		return script.Settings{}, script.Errorf(script.Invalid, "settings.historyLimit",
			"%d is not between 0 and %d", s.HistoryLimit, script.MaxHistoryLimit)
	}
	if err := cmp.Or(s.Rollout.Validate("settings.rollout"), s.Rollout.ValidateAfter("settings.rollout", of)); err != nil {
		return script.Settings{}, err
	}
	if len(s.Rollout.Steps) == 0 {
		s.Rollout.Steps = nil
	}
	var err error
	s.Spec, err = normalizeSpec(s.Spec)
	return s, err
}

// normalizeSpec is as normalizeSettings.
func normalizeSpec(s script.Spec) (script.Spec, error) {
	if err := s.Limits.Validate("settings.limits"); err != nil {
		return script.Spec{}, err
	}
	if err := s.Trigger.Validate("settings.trigger"); err != nil {
		return script.Spec{}, err
	}
	if err := s.OnError.Validate("settings.onError"); err != nil {
		return script.Spec{}, err
	}
	if err := s.Decisions.Validate("settings.log.decisions"); err != nil {
		return script.Spec{}, err
	}
	config, err := normalizeConfig(s.Config)
	if err != nil {
		return script.Spec{}, err
	}
	s.Config = config
	s.Tests, err = normalizeTests(s.Tests)
	return s, err
}

// normalizeTests validates the tests and brings their JSON into its shortest form, so
// that the same tests are the same bytes.
func normalizeTests(tests []script.Test) ([]script.Test, error) {
	const field = "settings.tests"
	if len(tests) > script.MaxTests {
		return nil, script.ValidateTests(field, tests)
	}
	var normal []script.Test
	for i, t := range tests {
		at := fmt.Sprintf("%s[%d]", field, i)
		if err := validateText(at+".name", t.Name, script.MaxTestNameBytes); err != nil {
			return nil, err
		}
		var err error
		if t.Request, err = compactJSON(at+".request", t.Request); err != nil {
			return nil, err
		}
		if t.Expect, err = compactJSON(at+".expect", t.Expect); err != nil {
			return nil, err
		}
		if string(t.Request) == "{}" {
			t.Request = nil
		}
		normal = append(normal, t)
	}
	if err := script.ValidateTests(field, normal); err != nil {
		return nil, err
	}
	return normal, nil
}

// compactJSON returns the value without the space around its parts; nil for none.
func compactJSON(field string, value []byte) (json.RawMessage, error) {
	if len(value) == 0 {
		return nil, nil
	}
	if !utf8.Valid(value) {
		return nil, script.Errorf(script.Invalid, field, "is not valid UTF-8")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, value); err != nil {
		return nil, script.Errorf(script.Invalid, field, "is not JSON: %w", err)
	}
	return compact.Bytes(), nil
}

func normalizeConfig(config []byte) (json.RawMessage, error) {
	const field = "settings.config"
	if len(config) > MaxConfigBytes {
		return nil, script.Errorf(script.Invalid, field, "has %d bytes, at most %d (64 KiB) are allowed", len(config), MaxConfigBytes)
	}
	if len(config) == 0 {
		return nil, nil
	}
	text, err := compactJSON(field, config)
	switch {
	case err != nil:
		return nil, err
	case text[0] != '{':
		return nil, script.Errorf(script.Invalid, field, "is not a JSON object")
	case len(text) == len("{}"):
		return nil, nil
	default:
		return text, nil
	}
}

// samePlan compares what stays with a release of normalized settings.
func samePlan(a, b script.Settings) bool {
	return a.Rollout.Equal(b.Rollout) && a.HistoryLimit == b.HistoryLimit
}
