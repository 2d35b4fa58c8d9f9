package replay_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/replay"
	"github.com/scriptorium-dev/scriptorium/script"
)

var route = script.Name{Tenant: "acme", Script: "route"}

// version compiles a source whose entrypoint is handle.
func version(t *testing.T, source string) *replay.Version {
	t.Helper()
	v := &replay.Version{Name: "v", Edition: script.Edition{Source: []byte(source)}}
	v.Entrypoint = "handle"
	v.Spec.Config = []byte(`{"limit":3}`)
	v.Spec.Limits.Timeout = 10 * 1e9 // the machine may be busy
	if err := v.Compile(engines.Offline()); err != nil {
		t.Fatal(err)
	}
	return v
}

// record is a line of acme/route with these members besides those that all have.
func record(members string) string {
	return `{"decision_id":"d1","timestamp":"2024-02-29T12:30:15.25Z","labels":{"agent":"n1"},"path":"acme/route","tenant":"acme","script":"route","version":8,` + members + "}"
}

func ok(input, result string) string {
	return record(fmt.Sprintf(`"outcome":"OK","input":%s,"result":%s`, input, result))
}

func file(name string, data []byte) replay.File {
	return replay.File{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// outcome of a replay.
type outcome struct {
	replay.Counts
	differences []string // "file:line pointer from to…"
	bad         []string
}

func run(t *testing.T, cfg replay.Config, files ...replay.File) outcome {
	t.Helper()
	var o outcome
	cfg.Script = route
	cfg.Different = func(d *replay.Different) error {
		text := fmt.Sprintf("%s:%d", d.File, d.Line)
		for _, p := range d.Parts {
			text += fmt.Sprintf(" %s %s %s", p.Pointer, p.From, p.To)
		}
		o.differences = append(o.differences, text)
		return nil
	}
	cfg.Bad = func(b replay.Bad) { o.bad = append(o.bad, fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Message)) }
	counts, err := replay.Run(t.Context(), &cfg, files)
	if err != nil {
		t.Fatal(err)
	}
	o.Counts = *counts
	return o
}

func TestOneRecord(t *testing.T) {
	const echo = `function handle(...) return ... end`
	for name, tt := range map[string]struct {
		source string
		record string
		masked bool
		want   string // "same", "other", "bad: …", a reason, or the differences
	}{
		"same":                  {echo, ok(`{"a":1,"b":[]}`, `{"b":[],"a":1.0}`), false, "same"},
		"another result":        {echo, ok(`{"a":1,"b":2}`, `{"a":1,"b":3,"c":null}`), false, "/result/b 3 2 /result/c null "},
		"config":                {`function handle() return config.limit end`, ok(`{}`, `3`), false, "same"},
		"null":                  {echo, ok(`null`, `null`), false, "same"},
		"no arguments":          {echo, record(`"outcome":"OK","input":[],"arguments":0,"result":[],"results":0`), false, "same"},
		"no results":            {`function handle() end`, record(`"outcome":"OK","arguments":0,"results":0`), false, "same"},
		"two arguments":         {echo, record(`"outcome":"OK","input":[1,"x"],"arguments":2,"result":[1,"y"],"results":2`), false, `/result/1 "y" "x"`},
		"fewer results":         {echo, record(`"outcome":"OK","input":1,"result":[1,2],"results":2`), false, "/result/1 2 "},
		"a result more":         {`function handle(a) return a, a end`, ok(`1`, `1`), false, "/result/1  1"},
		"no result any more":    {`function handle() end`, ok(`1`, `1`), false, "/result 1 "},
		"an error":              {`function handle() error("x") end`, ok(`1`, `1`), false, `/outcome "OK" "SCRIPT" /result 1 `},
		"the same error":        {`function handle() error("x") end`, record(`"outcome":"SCRIPT","error":{"kind":"SCRIPT","message":"y"},"input":1`), false, "same"},
		"another error":         {`function handle() while true do end end`, record(`"outcome":"SCRIPT","error":{"kind":"SCRIPT"},"input":1`), false, `/outcome "SCRIPT" "LIMIT"`},
		"no error any more":     {echo, record(`"outcome":"SCRIPT","error":{"kind":"SCRIPT"},"input":1`), false, `/outcome "SCRIPT" "OK" /result  1`},
		"of the node":           {echo, record(`"outcome":"OVERLOADED","input":1`), false, "outcome OVERLOADED"},
		"a timeout":             {echo, record(`"outcome":"TIMEOUT","input":1`), false, "outcome TIMEOUT"},
		"a response":            {`function handle() end function on_response(_, r) return r.status end`, record(`"outcome":"OK","on_response":true,"input":[{},{"status":204}],"arguments":2,"result":204`), false, "same"},
		"masked input":          {echo, record(`"outcome":"OK","input":{"k":"***"},"result":1,"masked":["/input/k"]`), false, "masked input"},
		"masked input, allowed": {echo, record(`"outcome":"OK","input":{"k":"***"},"result":{"k":"abc"},"masked":["/input/k"]`), true, `/result/k "abc" "***"`},
		"erased input":          {echo, record(`"outcome":"OK","input":{},"result":1,"erased":["/input/k"]`), false, "masked input"},
		"all input masked":      {echo, record(`"outcome":"OK","input":"***","arguments":2,"result":1,"masked":["/input"]`), true, "masked input"},
		"all input erased":      {echo, record(`"outcome":"OK","result":1,"erased":["/input"]`), true, "masked input"},
		"masked result":         {echo, record(`"outcome":"OK","input":{"k":1,"l":2},"result":{"k":"***","l":2},"masked":["/result/k"]`), false, "same"},
		"masked result, other":  {echo, record(`"outcome":"OK","input":{"k":1,"l":3},"result":{"k":"***","l":2},"masked":["/result/k"]`), false, "/result/l 2 3"},
		"masked result is gone": {echo, record(`"outcome":"OK","input":{"l":2},"result":{"k":"***","l":2},"masked":["/result/k"]`), false, `/result/k "***" `},
		"masked second result":  {echo, record(`"outcome":"OK","input":[1,{"k":1}],"arguments":2,"result":[1,{"k":"***"}],"results":2,"masked":["/result/1/k"]`), false, "same"},
		"erased result":         {echo, record(`"outcome":"OK","input":{"k":1,"l":2},"result":{"l":2},"erased":["/result/k"]`), false, "same"},
		"all result masked":     {echo, record(`"outcome":"OK","input":1,"result":"***","masked":["/result"]`), false, "masked result"},
		"too many masks":        {echo, record(`"outcome":"OK","input":{"k":"***"},"result":{"k":"***"},"masked":["/result/k"],"truncated":["masked"]`), true, "masked result"},
		"masked names":          {echo, record(`"outcome":"OK","input":{"k":1},"result":{"***":1},"masked":["/result/***"]`), false, "masked result"},
		"chosen input":          {echo, record(`"outcome":"OK","input":{"k":1},"result":{"k":1},"partial":["input"]`), true, "chosen fields of the input only"},
		"chosen result":         {echo, record(`"outcome":"OK","input":{"k":1},"result":{},"partial":["result"]`), true, "chosen fields of the result only"},
		"truncated input":       {echo, record(`"outcome":"OK","result":1,"truncated":["input"]`), false, "truncated input"},
		"truncated result":      {echo, record(`"outcome":"OK","input":1,"truncated":["result"]`), false, "truncated result"},
		"no input":              {echo, record(`"outcome":"OK","result":1`), false, "no input"},
		"no result":             {echo, record(`"outcome":"OK","input":1`), false, "no result"},
		"of another script":     {echo, strings.Replace(ok(`1`, `2`), `"script":"route"`, `"script":"cart"`, 1), false, "other"},
		"no JSON":               {echo, `{"decision_id":`, false, "bad: is no decision record: unexpected end of JSON input"},
		"no record":             {echo, `{"level":"info"}`, false, "bad: is no decision record: want decision_id, timestamp and outcome"},
		"an outcome of none":    {echo, record(`"outcome":"\u001b[2J","input":1`), false, `bad: is no decision record: "\x1b[2J" is no outcome`},
		"wrong arguments":       {echo, record(`"outcome":"OK","input":[1],"arguments":2,"result":1`), false, "bad: is no decision record: input is no array of 2, as arguments says"},
		"the record's time":     {`function handle() return time.now() end`, ok(`1`, `1709209815.25`), false, "same"},
		"no values":             {`function handle(k) return kv.get(k), kv.keys() end`, record(`"outcome":"OK","input":"k","result":[null,[]],"results":2`), false, "same"},
		"counters begin at 0":   {`function handle() return counter.add("c", 2), counter.get("c"), (ratelimit.allow("b", {rate=1})), (ratelimit.allow("b", {rate=1})) end`, record(`"outcome":"OK","input":1,"result":[2,2,true,false],"results":4`), false, "same"},
		"too many counters":     {`function handle() for i = 1, 1001 do counter.add("c" .. i) end end`, record(`"outcome":"LIMIT","input":1`), false, "same"},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, replay.Config{To: version(t, tt.source), Masked: tt.masked, Workers: 1}, file("f", []byte(tt.record)))
			var got string
			switch {
			case o.Same == 1:
				got = "same"
			case o.Others == 1:
				got = "other"
			case o.Bad == 1:
				got = "bad: " + strings.TrimPrefix(o.bad[0], "f:1: ")
			case o.NotComparable == 1:
				got = string(slices.Collect(maps.Keys(o.Why))[0])
			default:
				got = strings.TrimPrefix(o.differences[0], "f:1 ")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestAgainstAnotherVersion: what the log says came of the call does not matter.
func TestAgainstAnotherVersion(t *testing.T) {
	const id = `local id = crypto.uuid() .. crypto.uuid(7) .. math.random() .. crypto.random(20) .. time.now() `
	from := version(t, id+`function handle(r) return {id = id, n = r.n} end`)
	to := version(t, id+`function handle(r) if r.n > 2 then r.n = 0 end return {id = id, n = r.n} end`)
	lines := []string{
		ok(`{"n":1}`, `"whatever"`),
		record(`"outcome":"OVERLOADED","input":{"n":2}`),
		record(`"outcome":"OK","input":{"n":3},"truncated":["result"]`),
		record(`"outcome":"OK","input":{"n":4,"k":"***"},"masked":["/input/k"]`),
		record(`"outcome":"OK"`),
	}
	o := run(t, replay.Config{To: to, From: from}, file("f", []byte(strings.Join(lines, "\n")+"\n")))
	if o.Same != 2 || o.Different != 1 || o.Why[replay.MaskedInput] != 1 || o.Why[replay.NoInput] != 1 || o.differences[0] != "f:3 /result/n 3 0" {
		t.Errorf("%+v", o)
	}
	if want := map[offline.State]int64{offline.ReadRandom: 1, offline.ReadTime: 1}; !maps.Equal(o.Read, want) {
		t.Errorf("read %v, want %v", o.Read, want)
	}
}

func TestValues(t *testing.T) {
	to := version(t, `function handle() return kv.json("b").x, kv.keys("", "a") end`)
	values := map[string][]byte{"b": []byte(`{"x":7}`), "a": nil, "c": nil}
	o := run(t, replay.Config{To: to, Values: values}, file("f", []byte(record(`"outcome":"OK","input":1,"result":[7,["b","c"]],"results":2`))))
	if o.Same != 1 {
		t.Errorf("%+v", o)
	}
}

// TestManyRecords: the order is that of the files, however many run at once.
func TestManyRecords(t *testing.T) {
	to := version(t, `function handle(n) return n % 10 == 0 and -1 or n end`)
	const records = 2000
	var plain, packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	var want []string
	for n := range records {
		fmt.Fprintln(&plain, ok(fmt.Sprint(n), fmt.Sprint(n)))
		fmt.Fprintln(z, ok(fmt.Sprint(n), fmt.Sprint(n)))
		if n%100 == 99 {
			if err := z.Close(); err != nil { // as log rotation by appending does
				t.Fatal(err)
			}
			z.Reset(&packed)
			plain.WriteString("\r\n \n")
		}
	}
	for _, name := range []string{"a", "b.gz"} {
		line := 0
		for n := range records {
			line++
			if n%10 == 0 {
				want = append(want, fmt.Sprintf("%s:%d /result %d -1", name, line, n))
			}
			if n%100 == 99 && name == "a" {
				line += 2
			}
		}
	}
	for _, workers := range []int{1, 7} {
		o := run(t, replay.Config{To: to, Workers: workers}, file("a", plain.Bytes()), file("b.gz", packed.Bytes()))
		if o.Same != 2*records*9/10 || o.Lines != 2*records || !slices.Equal(o.differences, want) {
			t.Errorf("%d workers: %+v", workers, o.Counts)
		}
	}
	o := run(t, replay.Config{To: to, Limit: 15}, file("a", plain.Bytes()))
	if o.Compared() != 15 || o.Different != 2 {
		t.Errorf("with a limit: %+v", o.Counts)
	}
}

func TestFilesThatAreNotWhole(t *testing.T) {
	to := version(t, `function handle(n) return n end`)
	line := ok("1", "1") + "\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 100 {
		fmt.Fprint(z, line)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 9<<20)
	o := run(t, replay.Config{To: to},
		file("torn", []byte(line+line[:50])),
		file("torn.gz", packed.Bytes()[:packed.Len()-8]),
		file("long", []byte(line+long+"\n"+line+long)),
		file("empty", nil),
	)
	if o.Same != 103 || o.Bad != 4 {
		t.Errorf("%+v", o)
	}
	for i, want := range []string{"torn:2: is no decision record", "torn.gz:101: the rest of the file cannot be read: unexpected EOF", "long:2: is longer than 8 MiB", "long:4: is longer than 8 MiB"} {
		if i >= len(o.bad) || !strings.HasPrefix(o.bad[i], want) {
			t.Errorf("bad lines %q, want %q", o.bad, want)
		}
	}
}

// TestAnInputThatWaits: a replay that is interrupted ends, also if its input gives nothing.
func TestAnInputThatWaits(t *testing.T) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	cfg := replay.Config{Script: route, To: version(t, `function handle(n) return n + 1 end`), Bad: func(replay.Bad) {}}
	cfg.Different = func(*replay.Different) error {
		cancel(why)
		return nil
	}
	go func() { _, _ = io.WriteString(w, ok("1", "1")+"\n") }()
	counts, err := replay.Run(ctx, &cfg, []replay.File{{Name: "pipe", Open: func() (io.ReadCloser, error) { return r, nil }}})
	if !errors.Is(err, why) || counts.Different != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
	w.Close()
}

func TestErrorsEndAReplay(t *testing.T) {
	to := version(t, `function handle(n) return n + 1 end`)
	broken := errors.New("broken")
	cfg := replay.Config{Script: route, To: to, Different: func(*replay.Different) error { return broken }, Bad: func(replay.Bad) {}}
	lines := []byte(strings.Repeat(ok("1", "1")+"\n", 100))
	if _, err := replay.Run(t.Context(), &cfg, []replay.File{file("f", lines)}); !errors.Is(err, broken) {
		t.Errorf("a printer that fails: %v", err)
	}
	cfg.Different = func(*replay.Different) error { return nil }
	files := []replay.File{file("f", lines), {Name: "g", Open: func() (io.ReadCloser, error) { return nil, broken }}}
	if counts, err := replay.Run(t.Context(), &cfg, files); !errors.Is(err, broken) || counts.Different != 100 {
		t.Errorf("a file that cannot be opened: %+v, %v", counts, err)
	}
}
