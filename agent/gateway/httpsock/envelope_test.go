package httpsock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// envelopeOf returns a body with the arguments.
func envelopeOf(args ...string) []byte { return []byte(`{"args":[` + strings.Join(args, ",") + `]}`) }

// TestArgumentsAreFoundInOnePass: nobody is charged for finding them, so it must cost little
// beside receiving them. Whether they are JSON the engine looks at, in the call's turn.
func TestArgumentsAreFoundInOnePass(t *testing.T) {
	const size = maxBody - 100
	fill := func(text string) string { return strings.Repeat(text, size/len(text)) }
	for what, arg := range map[string]string{
		"nested":          "[" + strings.TrimSuffix(fill(strings.Repeat("[", 500)+strings.Repeat("]", 500)+","), ",") + "]",
		"objects":         "[" + strings.TrimSuffix(fill(`{"a":{"b":[]}},`), ",") + "]",
		"escapes":         `"` + fill(`\ud800`) + `"`,
		"escaped quotes":  `"` + fill(`\"`) + `"`,
		"digits":          fill("7"),
		"many, and small": "[" + strings.TrimSuffix(fill("1,"), ",") + "]",
	} {
		body := envelopeOf(arg)
		if !json.Valid(body) {
			t.Fatalf("%s: the test's own JSON is broken", what)
		}
		var args [][]byte
		var err error
		finding := fastest(func() { args, err = parseArgs(nil, body) })
		if err != nil || len(args) != 1 || string(args[0]) != arg {
			t.Fatalf("%s: %d arguments, %v", what, len(args), err)
		}
		reading := fastest(func() { json.Valid(body) })
		t.Logf("%s: %v, and %v for reading it all", what, finding, reading)
		if finding > reading {
			t.Errorf("%s: it takes %v to find the argument, and %v to read it all", what, finding, reading)
		}
		if n := testing.AllocsPerRun(3, func() { args, err = parseArgs(args[:0], body) }); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

// fastest returns how long do takes if nothing disturbs it.
func fastest(do func()) time.Duration {
	least := time.Hour
	for range 10 {
		start := time.Now()
		do()
		least = min(least, time.Since(start))
	}
	return least
}

// TestArgumentsAreThoseOfJSON: of bodies that are JSON, the arguments are what encoding/json
// finds. Of others, what is found is no JSON, and the engine says so.
func TestArgumentsAreThoseOfJSON(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"1", "-2.5e3", "true", "false", "null", `"a"`, `"]"`, `",\""`, `"\\"`, "[", "]", "{", "}", ",", ":", `"a":`, " ", "\n", `"`, `\`, "x"}
	for range 100_000 {
		inner := ""
		for range random.IntN(12) {
			inner += parts[random.IntN(len(parts))]
		}
		check(t, `{"args":[`+inner+`]}`)
		check(t, `{"args":`+inner+`}`)
		check(t, inner)
	}
	for _, body := range []string{`{}`, ` { } `, `{"args":null}`, `{"args":[]}`, `{"args" : [ 1 , 2 ] } `} {
		if _, err := parseArgs(nil, []byte(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		check(t, body)
	}
}

func check(t *testing.T, body string) {
	t.Helper()
	var want struct {
		Args []json.RawMessage `json:"args"`
	}
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	is := strings.HasPrefix(strings.TrimSpace(body), "{") && json.Valid([]byte(body)) && decoder.Decode(&want) == nil
	args, err := parseArgs(nil, []byte(body))
	if !is {
		if err == nil && !slices.ContainsFunc(args, func(arg []byte) bool { return !json.Valid(arg) }) {
			t.Fatalf("%q has the arguments %q", body, args)
		}
		return
	}
	if err != nil || fmt.Sprintf("%q", args) != fmt.Sprintf("%q", rawOf(want.Args)) {
		t.Fatalf("%q has the arguments %q, %v; want %q", body, args, err, want.Args)
	}
}

func rawOf(args []json.RawMessage) [][]byte {
	raw := make([][]byte, 0, len(args))
	for _, arg := range args {
		raw = append(raw, bytes.TrimSpace(arg))
	}
	return raw
}
