package lua

import (
	"unsafe"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// maxKeys is how many keys one call returns.
	maxKeys = 1000
	// keysPerInstruction is how many keys are listed, or looked at, for one instruction.
	keysPerInstruction = 2
)

func kvFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"get":  kvGet,
		"json": kvJSON,
		"keys": kvKeys,
	}
}

// valueOf returns the content of the tenant's value with the key that is the first
// argument, without a copy. It charges for the content's size, though afterwards: a host
// tells no size without reading, and what it reads is no larger than a value may be.
func valueOf(l *glua.LState, function string) (content string, ok bool) {
	key := argString(l, 1)
	host := hostOf(l, function)
	if len(key) > script.MaxValueKeyLen {
		return "", false // there can be none
	}
	raw, ok, err := host.Value(callOf(l).inv.Tenant, key)
	if err != nil {
		l.RaiseError("the value of %s cannot be read: %s", keyText(glua.LString(key)), clip(err.Error()))
	}
	if !ok {
		return "", false
	}
	meterOf(l).chargeBytes(l, len(raw))
	// Nobody changes the content of a value: engine.Host says so.
	return unsafe.String(unsafe.SliceData(raw), len(raw)), true
}

func kvGet(l *glua.LState) int {
	content, ok := valueOf(l, "kv.get")
	if !ok {
		l.Push(glua.LNil)
		return 1
	}
	m := meterOf(l)
	if len(content) > m.limits.StringBytes {
		raiseLimit(l, "the value of %s has %d bytes, and a string may have %d: raise limits.stringBytes, or read it by kv.json",
			argString(l, 1), len(content), m.limits.StringBytes)
	}
	l.Push(glua.LString(content))
	return 1
}

func kvJSON(l *glua.LState) int {
	content, ok := valueOf(l, "kv.json")
	if !ok {
		l.Push(glua.LNil)
		return 1
	}
	d := newDecoder(callOf(l))
	v, err := d.value(content)
	meterOf(l).charge(l, 0) // fails here if the budget is why decoding did
	if err != nil {
		l.RaiseError("the value of %s is not JSON that can be read: %s", argString(l, 1), err.Error())
	}
	l.Push(v)
	return 1
}

// kvKeys returns the tenant's keys in order.
func kvKeys(l *glua.LState) int {
	prefix, after := optString(l, 1, ""), optString(l, 2, "")
	keys := hostOf(l, "kv.keys").Keys(callOf(l).inv.Tenant, prefix, after, maxKeys)
	meterOf(l).charge(l, len(keys)/keysPerInstruction)
	meterOf(l).make(l, tableBytes+2*itemBytes*len(keys))
	t := l.CreateTable(len(keys), 0)
	t.Metatable = sandbox().arrayMeta
	for _, key := range keys {
		t.Append(glua.LString(key))
	}
	l.Push(t)
	return 1
}
