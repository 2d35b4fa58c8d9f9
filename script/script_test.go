package script_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestParseRef(t *testing.T) {
	long := strings.Repeat("a", script.MaxLabelLen)
	tests := []struct {
		in    string
		want  string // String of the result, or "" for an error
		field string // that the error blames
	}{
		{in: "acme/route", want: "acme/route"},
		{in: "acme/route@7", want: "acme/route@7"},
		{in: "a/0", want: "a/0"},
		{in: long + "/" + long, want: long + "/" + long},
		{in: "", field: "script"},
		{in: "acme", field: "script"},
		{in: "/route", field: "tenant"},
		{in: "acme/", field: "name"},
		{in: "acme/a/b", field: "name"},
		{in: "Acme/route", field: "tenant"},
		{in: "acme/-x", field: "name"},
		{in: "acme/x-", field: "name"},
		{in: "acme/ro\x00ute", field: "name"},
		{in: "acme/" + long + "a", field: "name"},
		{in: "acme/route@", field: "version"},
		{in: "acme/route@0", field: "version"},
		{in: "acme/route@07", field: "version"},
		{in: "acme/route@+7", field: "version"},
		{in: "acme/route@-1", field: "version"},
		{in: "acme/route@7@8", field: "version"},
		{in: "acme/route@99999999999999999999", field: "version"},
	}
	for _, tt := range tests {
		got, err := script.ParseRef(tt.in)
		if tt.want != "" {
			if err != nil || got.String() != tt.want {
				t.Errorf("ParseRef(%q) = %v, %v, want %s", tt.in, got, err, tt.want)
			}
			continue
		}
		if e, ok := errors.AsType[*script.Error](err); !ok || e.Kind != script.Invalid || e.Field != tt.field {
			t.Errorf("ParseRef(%q): error %v, want Invalid for %q", tt.in, err, tt.field)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("acme/route@7")
	f.Add("a/b")
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := script.ParseRef(s)
		if err != nil {
			return
		}
		if ref.String() != s {
			t.Errorf("ParseRef(%q) reads back as %q", s, ref)
		}
	})
}

func TestDigest(t *testing.T) {
	d := script.DigestOf([]byte("return 1"))
	parsed, err := script.ParseDigest(d.String())
	if err != nil || parsed != d {
		t.Errorf("ParseDigest(%s) = %v, %v", d, parsed, err)
	}
	if !strings.HasPrefix(d.String(), d.Short()) || len(d.Short()) != len("sha256:")+8 {
		t.Errorf("Short() = %q of %q", d.Short(), d)
	}
	for _, bad := range []string{"", "sha256:", "md5:" + d.String()[7:], d.String()[:70], strings.ToUpper(d.String()), d.String() + "0"} {
		if _, err := script.ParseDigest(bad); script.KindOf(err) != script.Invalid {
			t.Errorf("ParseDigest(%q): %v, want Invalid", bad, err)
		}
	}
	var back struct{ A, B script.Digest }
	text, err := json.Marshal(struct{ A, B script.Digest }{A: d})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &back); err != nil || back.A != d || !back.B.IsZero() {
		t.Errorf("%s reads back as %v, %v", text, back, err)
	}
}

func TestErrorKeepsKindAndCause(t *testing.T) {
	err := fmt.Errorf("publish: %w", script.Errorf(script.Unavailable, "registry", "cannot be read: %w", fs.ErrPermission))
	if got := script.KindOf(err); got != script.Unavailable {
		t.Errorf("KindOf = %q", got)
	}
	if !errors.Is(err, fs.ErrPermission) {
		t.Error("the cause is lost")
	}
	if got := script.KindOf(fs.ErrPermission); got != script.Internal {
		t.Errorf("KindOf of a foreign error = %q", got)
	}
	if script.KindOf(nil) != "" || script.AsError(nil) != nil {
		t.Error("nil is an error")
	}
	at := &script.Error{Kind: script.Script, Field: "source", Message: "unexpected 'end'", Line: 3, Column: 7}
	if got, want := at.Error(), "source: unexpected 'end' (line 3, column 7)"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestLimits(t *testing.T) {
	if err := script.MaxLimits().Validate("limits"); err != nil {
		t.Errorf("the maximum is refused: %v", err)
	}
	if got := (script.Limits{}).OrDefaults(); got != script.DefaultLimits() {
		t.Errorf("OrDefaults of nothing = %+v", got)
	}
	kept := script.Limits{Instructions: 1, Timeout: 1, SourceBytes: 1, StringBytes: 1, ResultBytes: 1, LogBytes: 1, WasmMemory: 1}
	if got := kept.OrDefaults(); got != kept {
		t.Errorf("OrDefaults changed %+v to %+v", kept, got)
	}
	over := map[string]script.Limits{
		"limits.logBytes":     {LogBytes: -1},
		"limits.concurrency":  {Concurrency: script.MaxLimits().Concurrency + 1},
		"limits.instructions": {Instructions: script.MaxLimits().Instructions + 1},
		"limits.timeout":      {Timeout: -time.Second},
		"limits.sourceBytes":  {SourceBytes: script.MaxLimits().SourceBytes + 1},
		"limits.stringBytes":  {StringBytes: -1},
		"limits.resultBytes":  {ResultBytes: script.MaxLimits().ResultBytes + 1},
	}
	for field, l := range over {
		if e := script.AsError(l.Validate("limits")); e == nil || e.Field != field || e.Kind != script.Invalid {
			t.Errorf("Validate(%+v) = %v, want Invalid for %s", l, e, field)
		}
	}
}
