package krm_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/krm"
)

const resources = "apiVersion: v1\nkind: Service\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: cart}\n"

func function(t *testing.T, source string) *krm.Function {
	t.Helper()
	f, err := krm.New(&manifest.Manifest{SourceFile: "script.lua", Source: []byte(source)}, func(engine.Level, string) {})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(t *testing.T, text string) *krm.Input {
	t.Helper()
	in, err := krm.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestNoResources: no resources are a result, too, of a script that drops all and of an empty input.
func TestNoResources(t *testing.T) {
	for _, text := range []string{resources, "", "---\n"} {
		in := read(t, text)
		if err := function(t, "return false").Apply(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := in.Write(&out); err != nil || out.String() != "" {
			t.Errorf("%q: got %q, %v", text, out.String(), err)
		}
	}
}

// TestHealths: what is no status of Argo CD does not pass for one, so CI does not go on after a misspelled "Degraded".
func TestHealths(t *testing.T) {
	for source, want := range map[string]string{
		`return {status = "Healthy", resource = "other"}`: "",
		`return {status = "degraded"}`:                    `Service shop: the script returned the status "degraded": want one of Healthy`,
		`return nil`:                                      "Service shop: the script returned nothing: want a table",
	} {
		healths, err := function(t, source).Healths(t.Context(), read(t, resources))
		switch {
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", source, err, want)
		case want == "" && (err != nil || len(healths) != 2 || healths[1].Resource != "Service cart"):
			t.Errorf("%s: %+v, %v", source, healths, err)
		}
	}
}
