package rego_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/rego"
	"github.com/scriptorium-dev/scriptorium/script"
)

func bundle(tb testing.TB, files map[string]string) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestBundle(t *testing.T) {
	code := bundle(t, map[string]string{
		"/acme/route.rego":      "package acme.route\n\nimport data.acme.lib\n\ndecision := lib.twice(data.acme.limits.requests) + data.top",
		"acme/lib.rego":         "package acme.lib\n\ntwice(n) := n * 2",
		"acme/limits/data.json": `{"requests":20}`, "data.json": `{"top":2}`, ".manifest": `{"roots":[""],"rego_version":1}`,
		"acme/route_test.rego": "package acme.route\n\ntest_x if { nothing }",
	})
	for _, target := range []string{"wasm", "interpreted"} {
		src := source("", target)
		src.Code, src.Entrypoint = code, "acme/route/decision"
		if got, err := run(t, src, &engine.Invocation{}); err != nil || got != "42" {
			t.Errorf("%s: got %s, %v, want 42", target, got, err)
		}
	}
}

// TestLargeBundle: a bundle may be larger than a source that people write.
func TestLargeBundle(t *testing.T) {
	noise := make([]byte, script.MaxSourceBytes)
	rand.NewChaCha8([32]byte{}).Read(noise)
	src := source("", "interpreted")
	src.Code = bundle(t, map[string]string{"p.rego": "package p\n\nallow := data.key != \"\"", "data.json": `{"key":"` + hex.EncodeToString(noise) + `"}`})
	if src.Entrypoint = "p/allow"; len(src.Code) <= script.MaxSourceBytes {
		t.Fatalf("the bundle has %d bytes", len(src.Code))
	}
	if got, err := run(t, src, &engine.Invocation{}); err != nil || got != "true" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestBundleRefused(t *testing.T) {
	many := map[string]string{}
	for i := range 501 {
		many[strings.Repeat("x", i+1)] = ""
	}
	policy := "package p\n\nallow := true"
	large := "package q\n" + strings.Repeat("# a comment\n", 15_000) // of which one alone may be there
	for name, test := range map[string]struct {
		code []byte
		kind script.Kind
	}{
		"bomb":         {bundle(t, map[string]string{"p.rego": policy, "zeros": strings.Repeat("\x00", 5<<20)}), script.Limit},
		"policies":     {bundle(t, map[string]string{"p.rego": policy, "q.rego": large, "r.rego": large}), script.Limit},
		"files":        {bundle(t, many), script.Limit},
		"no policy":    {bundle(t, map[string]string{"data.json": "{}"}), script.Script},
		"no archive":   {[]byte{0x1f, 0x8b, 1, 2, 3}, script.Invalid},
		"data":         {bundle(t, map[string]string{"p.rego": policy, "data.json": "[1]"}), script.Invalid},
		"own document": {bundle(t, map[string]string{"p.rego": policy, "data.json": `{"values":{}}`}), script.Script},
		"version":      {bundle(t, map[string]string{"p.rego": policy, ".manifest": `{"rego_version":0}`}), script.Script},
		"syntax":       {bundle(t, map[string]string{"p.rego": "package p\n\nallow := := 1"}), script.Script},
		"no default":   {bundle(t, map[string]string{"p.rego": policy}), script.Script},
	} {
		if err := (rego.Checker{}).Check(engine.Source{Code: test.code}); script.KindOf(err) != test.kind {
			t.Errorf("%s: %v, want an error of kind %s", name, err, test.kind)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}
