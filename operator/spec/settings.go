package spec

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// positive returns n, and 0 with a fault if it is not between 1 and most.
func positive[T int | uint64](r *reader, field string, n, most int64) T {
	if n < 1 || n > most {
		r.fault(field, "%d is not between 1 and %d; leave it out for the default", n, most)
		return 0
	}
	return T(n)
}

// limits returns l with 0 for what is not set.
func (r *reader) limits(path string, l *v1alpha1.Limits) script.Limits {
	if l == nil {
		return script.Limits{}
	}
	most := script.MaxLimits()
	size := func(name string, n *int64, most int) int {
		if n == nil {
			return 0
		}
		return positive[int](r, path+"."+name, *n, int64(most))
	}
	limits := script.Limits{
		Timeout:     r.duration(path+".timeout", l.Timeout, most.Timeout),
		SourceBytes: size("sourceBytes", l.SourceBytes, script.MaxArtifactBytes),
		StringBytes: size("stringBytes", l.StringBytes, most.StringBytes),
		ResultBytes: size("resultBytes", l.ResultBytes, most.ResultBytes),
		LogBytes:    size("logBytes", l.LogBytes, most.LogBytes),
		Coroutines:  l.Coroutines != nil && *l.Coroutines,
	}
	if lua := l.Lua; lua != nil {
		if lua.StringBytes != nil {
			limits.StringBytes = size("lua.stringBytes", lua.StringBytes, most.StringBytes)
		}
		limits.Coroutines = limits.Coroutines || lua.Coroutines != nil && *lua.Coroutines
	}
	if l.Wasm != nil {
		limits.WasmMemory = size("wasm.memory", l.Wasm.Memory, script.MaxWasmMemory)
	}
	if l.Instructions != nil {
		limits.Instructions = positive[uint64](r, path+".instructions", *l.Instructions, int64(most.Instructions))
	}
	if l.Concurrency != nil {
		limits.Concurrency = positive[int](r, path+".concurrency", int64(*l.Concurrency), int64(most.Concurrency))
	}
	return limits
}

// onError returns e with zero for what is not set.
func (r *reader) onError(path string, e *v1alpha1.OnError) (want script.OnError) {
	if e == nil {
		return want
	}
	if e.Policy != nil {
		want.Policy = script.PolicyOf(*e.Policy)
	}
	if e.Status != nil {
		if want.Status = int(*e.Status); want.Status == 0 { // which is not as if it were left out
			r.fault(path+".status", "0 is not between %d and %d; leave it out for the default, 503", script.MinOnErrorStatus, script.MaxOnErrorStatus)
		}
	}
	if e.Body != nil {
		want.Body = *e.Body
	}
	r.check(want.Validate(path))
	return want
}

// log returns what l says of decisions; nil for nothing.
func (r *reader) log(path string, l *v1alpha1.Log) *script.Decisions {
	if l == nil || l.Decisions == nil {
		return nil
	}
	d := l.Decisions
	want := &script.Decisions{Mask: d.Mask, Fields: d.Fields, Errors: d.Errors != nil && *d.Errors}
	if d.Sample != nil {
		want.Sample = *d.Sample
	}
	r.check(want.Validate(path + ".decisions"))
	return want
}

// trigger returns t with zero for what is not set.
func (r *reader) trigger(path string, t *v1alpha1.Trigger) (want script.Trigger) {
	if t == nil {
		return want
	}
	want.Event = t.Event
	if t.Priority != nil {
		want.Priority = int(*t.Priority)
	}
	if m := t.Match; m != nil {
		want.Match = script.Match{Hosts: m.Hosts, PathPrefixes: m.PathPrefixes, Methods: m.Methods, Headers: m.Headers}
	}
	if want.Event == "" {
		r.check(script.ValidateLabel(path+".event", want.Event))
		return want
	}
	r.check(want.Validate(path))
	return want
}

func (r *reader) duration(field string, s *string, most time.Duration) time.Duration {
	if s == nil {
		return 0
	}
	t, err := time.ParseDuration(*s)
	if err != nil {
		r.fault(field, "%.80q is not a duration: want a number and a unit, such as 50ms", *s)
		return 0
	}
	if t <= 0 || t > most {
		r.fault(field, "%v is not above 0 and at most %v", t, most)
		return 0
	}
	return t
}

// Bounds of JSON in a spec: those of the registry and of what an engine hands to a
// script.
const (
	maxConfigBytes = 64 << 10
	maxDepth       = 32
)

// config returns the object in raw with its keys in order, so that equal configs are
// equal bytes, whoever wrote them; nil for none.
func (r *reader) config(raw []byte) json.RawMessage {
	const field = "spec.config"
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	v, err := decode(raw)
	object, ok := v.(map[string]any)
	if err != nil || !ok {
		r.fault(field, "is not a JSON object")
		return nil
	}
	if len(object) == 0 {
		return nil
	}
	config := r.encode(field, object)
	if len(config) > maxConfigBytes {
		r.fault(field, "has %d bytes, at most %d (64 KiB) are allowed", len(config), maxConfigBytes)
		return nil
	}
	return config
}

// decode returns the one JSON value in raw.
func decode(raw []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // large numbers stay what they are
	err = dec.Decode(&v)
	return v, err
}

// encode returns v as JSON with its keys in order, and nil with a fault if it cannot be
// handed to a script.
func (r *reader) encode(field string, v any) json.RawMessage {
	if depth(v) > maxDepth {
		r.fault(field, "is nested deeper than %d", maxDepth)
		return nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		r.fault(field, "cannot be written as JSON: %v", err)
		return nil
	}
	return bytes.TrimSpace(buf.Bytes())
}

// depth returns how deep objects and lists are nested in v.
func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			deepest = max(deepest, depth(member))
		}
	case []any:
		for _, item := range v {
			deepest = max(deepest, depth(item))
		}
	default:
		return 0
	}
	return deepest + 1
}
