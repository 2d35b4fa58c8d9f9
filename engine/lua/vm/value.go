package vm

import "strconv"

// LuaVersion is which Lua this is.
const LuaVersion = "Lua 5.1"

// LValueType is a type of values.
type LValueType int

// The types.
const (
	LTNil LValueType = iota
	LTBool
	LTNumber
	LTString
	LTFunction
	LTUserData
	LTThread
	LTTable
	types
)

// String returns what type() does.
func (vt LValueType) String() string {
	return [types]string{"nil", "boolean", "number", "string", "function", "userdata", "thread", "table"}[vt]
}

// LValue is a value of Lua.
type LValue interface {
	String() string
	Type() LValueType
}

// LNilType is the type of LNil.
type LNilType struct{ _ byte }

// LBool is a boolean.
type LBool bool

// LNumber is a number.
type LNumber float64

// LString is a string.
type LString string

// LFunction is a function of Lua, or of Go if IsG.
type LFunction struct {
	IsG       bool
	Env       *LTable
	Proto     *FunctionProto
	GFunction LGFunction
	Upvalues  []*Upvalue
}

// LGFunction is a function of Go. Its arguments are what is on the stack, and it returns how many values of the top of
// the stack are its results, or Yield.
type LGFunction func(*LState) int

// LUserData is a value that is Go's.
type LUserData struct {
	Value     any
	Metatable *LTable
}

// The values that there are once.
var (
	LNil   = LValue(&LNilType{})
	LTrue  = LBool(true)
	LFalse = LBool(false)
)

// What has an address does not show it.

func (*LNilType) String() string  { return "nil" }
func (b LBool) String() string    { return strconv.FormatBool(bool(b)) }
func (n LNumber) String() string  { return strconv.FormatFloat(float64(n), 'g', -1, 64) }
func (s LString) String() string  { return string(s) }
func (*LFunction) String() string { return "function" }
func (*LUserData) String() string { return "userdata" }
func (*LState) String() string    { return "thread" }
func (*LTable) String() string    { return "table" }

// Type is LValue's.
func (*LNilType) Type() LValueType { return LTNil }

// Type is LValue's.
func (LBool) Type() LValueType { return LTBool }

// Type is LValue's.
func (LNumber) Type() LValueType { return LTNumber }

// Type is LValue's.
func (LString) Type() LValueType { return LTString }

// Type is LValue's.
func (*LFunction) Type() LValueType { return LTFunction }

// Type is LValue's.
func (*LUserData) Type() LValueType { return LTUserData }

// Type is LValue's.
func (*LState) Type() LValueType { return LTThread }

// Type is LValue's.
func (*LTable) Type() LValueType { return LTTable }

// IsNil is v == LNil, without a call.
func IsNil(v LValue) bool {
	_, is := v.(*LNilType)
	return is
}

// LVIsFalse reports whether v is nil or false.
func LVIsFalse(v LValue) bool { return !LVAsBool(v) }

// LVAsBool reports whether v is neither nil nor false.
func LVAsBool(v LValue) bool {
	switch v := v.(type) {
	case *LNilType:
		return false
	case LBool:
		return bool(v)
	}
	return true
}

// Upvalue is a variable of a function around the one that uses it: in a register as long as that runs, and in itself
// from then on.
type Upvalue struct {
	at    *LValue // nil means &value
	value LValue
	next  *Upvalue // the open one in the next lower register
	index int      // of the register
}

// Value returns the variable's value.
func (uv *Upvalue) Value() LValue { return *uv.at }

// SetValue sets it.
func (uv *Upvalue) SetValue(v LValue) {
	if uv.at == nil {
		uv.at = &uv.value
	}
	*uv.at = v
}

// IsClosed reports whether the variable is in no register.
func (uv *Upvalue) IsClosed() bool { return uv.at == nil || uv.at == &uv.value }

func (uv *Upvalue) close() {
	uv.value = *uv.at
	uv.at = &uv.value
	uv.next = nil
}
