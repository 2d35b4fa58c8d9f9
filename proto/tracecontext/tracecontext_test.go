package tracecontext_test

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
)

const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want string // "" if it is refused
	}{
		"sampled":                  {valid, valid},
		"not sampled":              {strings.TrimSuffix(valid, "1") + "0", strings.TrimSuffix(valid, "1") + "0"},
		"flags of later editions":  {strings.TrimSuffix(valid, "01") + "ff", valid},
		"a later version":          {"cc" + valid[2:], valid},
		"fields of a later one":    {"cc" + valid[2:] + "-what-the-future-will-be-like", valid},
		"empty":                    {"", ""},
		"cut":                      {valid[:54], ""},
		"longer":                   {valid + "-00", ""},
		"longer without a hyphen":  {"cc" + valid[2:] + ".what", ""},
		"version 255":              {"ff" + valid[2:], ""},
		"capital letters":          {strings.ToUpper(valid), ""},
		"no trace":                 {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""},
		"no span":                  {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", ""},
		"no digits":                {"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", ""},
		"flags that are no digits": {strings.TrimSuffix(valid, "1") + ".", ""},
		"other separators":         {strings.ReplaceAll(valid, "-", "_"), ""},
		"not ASCII":                {"00-4bf92f3577b34da6a3ce929d0e0e47\u00e9-00f067aa0ba902b7-01", ""},
		"a megabyte":               {valid + strings.Repeat("0", 1<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := tracecontext.Parse(tt.text)
			if ok != (tt.want != "") || got.String() != tt.want {
				t.Errorf("Parse(%.80q) = %q, %t, want %q", tt.text, got, ok, tt.want)
			}
		})
	}
}

func TestGoContext(t *testing.T) {
	want, _ := tracecontext.Parse(valid)
	ctx := tracecontext.With(t.Context(), want)
	if got := tracecontext.From(ctx); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := tracecontext.With(ctx, tracecontext.Context{}); got != ctx {
		t.Error("no context replaces another")
	}
	if got := tracecontext.From(t.Context()); got.Valid() {
		t.Errorf("a context without a span has %v", got)
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"short":                             "short",
		"\xffx":                             "x",
		strings.Repeat("a", 300):            strings.Repeat("a", 256),
		strings.Repeat("\u00e9", 200) + "x": strings.Repeat("\u00e9", 128),
		"a" + strings.Repeat("\u00e9", 200): "a" + strings.Repeat("\u00e9", 127),
	} {
		if got := tracecontext.Text(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// FuzzParse compares with the propagator of OpenTelemetry.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{valid, "", "cc" + valid[2:] + "-x", strings.ToUpper(valid), valid[:54]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := tracecontext.Parse(text)
		carrier := propagation.MapCarrier{tracecontext.Name: text}
		want := tracecontext.From(propagation.TraceContext{}.Extract(context.Background(), carrier))
		if got != want {
			t.Errorf("%q: got %v, OpenTelemetry has %v", text, got, want)
		}
		if got.Valid() && got.Sampled() == tracecontext.Unsampled(text) {
			t.Errorf("%q: it is sampled: %t", text, got.Sampled())
		}
		if again, ok := tracecontext.Parse(got.String()); got.Valid() && (!ok || again != got) {
			t.Errorf("%v is read as %v", got, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := tracecontext.Parse(valid); !ok {
			b.Fatal("refused")
		}
	}
}
