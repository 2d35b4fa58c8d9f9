package luajson

import (
	"unsafe"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Object is a table made of a JSON object whose members stay text until the
// script asks for them: most scripts read a few of many. Whatever else is done to
// the table first makes it a plain one; scripts cannot tell the difference.
//
// The text was checked from end to end before, so that reading it cannot fail.
type Object struct {
	// LTable is what scripts hold. As long as its metatable is lazyMark, it is empty and
	// members count.
	vm.LTable

	extent
	store   *Store // of the call
	text    string // all of the JSON
	depth   int
	opened  bool // a member that is a table was handed out
	members []member

	// nulls has the names of null members as its keys, once the table is a plain one: see nullsOf. Scripts do not see
	// these members, and the encoder writes them.
	nulls *vm.LTable
}

// innerBytes is what an innerObject takes, slices that were outgrown included.
const innerBytes = 2 * int(unsafe.Sizeof(innerObject{}))

// extent is what is known of an object once it was checked.
type extent struct {
	start, end int  // in the text
	deepest    int  // of what is in it
	values     int  // within it, at any depth
	plain      bool // what the encoder would write is what stands there
}

// member of a lazy object.
type member struct {
	name  string
	start int32     // of the value in the text
	inner int32     // where store.inner has the object that is the value, from 1; or 0
	value vm.LValue // once it was asked for
}

// innerObject is an object that is a member of a lazy one: its members were found
// when that was checked, and need not be looked for again when it is asked for.
type innerObject struct {
	extent
	members []member
}

// lazyBytesPerInstruction is how many bytes of JSON that were checked before are read
// again for one instruction.
const lazyBytesPerInstruction = 16

// lazyMembers is up to how many members are searched one by one.
const lazyMembers = 32

// What lazy objects and their members take, in bytes.
const (
	lazyBytes   = 280
	memberBytes = 140
)

// Lazy returns the lazy object that t is, or nil.
func Lazy(t *vm.LTable) *Object {
	if t.Lazy == nil || t.Metatable != lazyMark {
		return nil
	}
	o, _ := t.Lazy.(*Object)
	return o
}

// Member is vm.Lazy's.
func (o *Object) Member(_ *vm.LState, name string) vm.LValue {
	if o.Metatable != lazyMark || len(o.members) > lazyMembers {
		return nil
	}
	v := o.Get(name)
	if vm.IsNil(v) && isDerived(name) {
		return nil // lazyIndex may raise errors
	}
	return v
}

// Count returns how many members there are.
func (o *Object) Count() int { return len(o.members) }

// Name returns the name of the i-th member.
func (o *Object) Name(i int) string { return o.members[i].name }

// Settle makes t a plain table if it is a lazy one.
func Settle(t *vm.LTable) {
	o := Lazy(t)
	if o == nil {
		return
	}
	c := o.store
	*t = *vm.NewTable(0, len(o.members))
	for i := range o.members {
		if i%vm.Skipped == vm.Skipped-1 && !c.meter.Pay(0) {
			break // the call is over
		}
		name, value := o.members[i].name, o.ValueAt(i)
		switch isNull := vm.IsNil(value); {
		case isNull && o.nulls == nil:
			o.nulls = &vm.LTable{}
			fallthrough
		case isNull:
			o.nulls.RawSetString(name, vm.LTrue)
		case o.nulls != nil:
			o.nulls.RawSetString(name, vm.LNil) // the name occurs twice
		}
		t.RawSetString(name, value)
	}
	switch {
	case o.nulls != nil:
		t.Metatable, t.Lazy = nullsMark, o
		c.meter.Made(vm.TableBytes + o.nulls.Footprint().Since(vm.Footprint{}))
	case c.owner.IsRequest(t):
		t.Metatable = requestMark
	}
	c.meter.Made(t.Footprint().Since(vm.Footprint{}))
	o.members, o.text = nil, ""
}

// nullsOf returns the table whose keys are the names of the null members of t; nil if t has none, or is lazy.
func nullsOf(t *vm.LTable) *vm.LTable {
	if t.Lazy == nil || t.Metatable != nullsMark {
		return nil
	}
	return t.Lazy.(*Object).nulls // only settle gives a table this metatable
}

// nullsNewIndex is __newindex of tables with null members.
func nullsNewIndex(l *vm.LState) int {
	Set(l, l.Get(1).(*vm.LTable), l.Get(2), l.Get(3))
	return 0
}

// Set is t[key] = v of a builtin; it refuses nil and NaN.
func Set(l *vm.LState, t *vm.LTable, key, v vm.LValue) {
	if nulls := nullsOf(t); nulls != nil {
		if name, ok := key.(vm.LString); ok {
			nulls.RawSetString(string(name), vm.LNil)
		}
	}
	l.Set(t, key, v)
}

// Get returns the member with the name; nil if there is none. If a name occurs
// twice, the last one counts.
func (o *Object) Get(name string) vm.LValue {
	for i := len(o.members) - 1; i >= 0; i-- {
		if o.members[i].name == name {
			return o.ValueAt(i)
		}
	}
	return vm.LNil
}

// ValueAt returns the value of the i-th member, the same each time. It is nil if the member is null.
func (o *Object) ValueAt(i int) vm.LValue {
	m := &o.members[i]
	if m.value != nil {
		return m.value
	}
	if o.text[m.start] == 'n' {
		return vm.LNil
	}
	if m.inner > 0 {
		in := &o.store.inner[m.inner-1]
		m.value = &newLazy(o.store, o.text, o.depth+1, in.extent, in.members).LTable
		o.opened = true
		return m.value
	}
	// What is in a table is read again at each level above it that is asked for.
	d := NewDecoder(o.store)
	d.rate, d.in, d.at, d.paid = lazyBytesPerInstruction, o.text, int(m.start), int(m.start)
	v, err := d.any(o.depth + 1)
	if err == nil {
		err = d.pay()
	}
	if err != nil {
		if o.store.owner.Stopped() == nil {
			panic(err) // the text was checked before
		}
		return vm.LNil // the call is over
	}
	m.value = v
	if _, ok := v.(*vm.LTable); ok {
		o.opened = true
	}
	return v
}

// lazyIndex is __index of lazy objects.
func lazyIndex(l *vm.LState) int {
	t := l.Get(1).(*vm.LTable)
	o := Lazy(t)
	name, ok := l.Get(2).(vm.LString)
	value := vm.LNil
	switch {
	case !ok:
	case len(o.members) > lazyMembers:
		Settle(t)
		value = t.RawGetString(string(name))
	default:
		value = o.Get(string(name))
	}
	if value == vm.LNil && isDerived(string(name)) {
		value = o.store.owner.Derived(l, t, string(name))
	}
	return l.Return(value)
}

// lazyNewIndex is __newindex of lazy objects.
func lazyNewIndex(l *vm.LState) int {
	t := l.Get(1).(*vm.LTable)
	Settle(t)
	Set(l, t, l.Get(2), l.Get(3))
	return 0
}

func newLazy(c *Store, text string, depth int, e extent, members []member) *Object {
	o := &Object{store: c, text: text, depth: depth, extent: e, members: members}
	o.Metatable, o.Lazy = lazyMark, o
	c.meter.Made(lazyBytes + memberBytes*len(members))
	return o
}

// lazy decodes the object at d.at into a lazy one.
func (d *Decoder) lazy(depth int) (*vm.LTable, error) {
	first := len(d.store.members)
	e, err := d.extent(depth, keepMembers)
	// Of its own from here on: what others append must not reach into it.
	members := d.store.members[first:len(d.store.members):len(d.store.members)]
	return &newLazy(d.store, d.in, depth, e, members).LTable, err
}

// inner checks the object at d.at, which is the value of the last member, and keeps
// what is found.
func (d *Decoder) inner(depth int) error {
	if err := d.count(); err != nil {
		return err
	}
	c := d.store
	last, first := &c.members[len(c.members)-1], len(c.innerMembers)
	e, err := d.extent(depth, keepInner)
	c.inner = append(c.inner, innerObject{e, c.innerMembers[first:len(c.innerMembers):len(c.innerMembers)]})
	last.inner = int32(len(c.inner))
	c.meter.Made(innerBytes + memberBytes*(len(c.innerMembers)-first))
	return err
}

// extent checks the object at d.at.
func (d *Decoder) extent(depth int, keep keep) (extent, error) {
	e := extent{start: d.at}
	rough, deepest, before := d.rough, d.deepest, d.nodes
	d.rough, d.deepest = false, depth
	err := d.members(depth, keep)
	e.end, e.plain, e.deepest, e.values = d.at, !d.rough, d.deepest, before-d.nodes
	d.rough, d.deepest = d.rough || rough, max(d.deepest, deepest)
	return e, err
}

// keep says what becomes of the members of an object that is checked.
type keep uint8

const (
	keepNone    keep = iota
	keepMembers      // they go to store.members, and those of their objects to store.innerMembers
	keepInner        // they go to store.innerMembers
)

// members checks the object at d.at.
func (d *Decoder) members(depth int, keep keep) error {
	if err := d.enter(depth); err != nil {
		return err
	}
	if d.peek() == '}' {
		d.at++
		return nil
	}
	mark := len(d.store.names)
	err := d.membersFrom(mark, depth, keep)
	d.store.names = d.store.names[:mark]
	return err
}

// membersFrom checks members, of which there is one at least. Their names begin at mark.
func (d *Decoder) membersFrom(mark, depth int, keep keep) error {
	var seen uint64
	for more := true; more; {
		start := d.at + 1
		name, err := d.name()
		if err != nil {
			return err
		}
		if !d.rough {
			seen = d.note(seen, mark, span32{int32(start), int32(start + len(name))})
		}
		switch keep {
		case keepMembers:
			d.store.members = append(d.store.members, member{name: name, start: int32(d.at)})
		case keepInner:
			d.store.innerMembers = append(d.store.innerMembers, member{name: name, start: int32(d.at)})
		}
		if keep == keepMembers && d.peek() == '{' {
			err = d.inner(depth + 1)
		} else {
			err = d.skip(depth + 1)
		}
		if err != nil {
			return err
		}
		if more, err = d.next('}'); err != nil {
			return err
		}
	}
	return nil
}

// span32 is where something stands in the text.
type span32 struct{ start, end int32 }

// note remembers where a name of the object whose names begin at mark stands, and
// finds out whether it occurred before: what is written then is not what stands
// there. seen has a bit for each name so far.
func (d *Decoder) note(seen uint64, mark int, at span32) uint64 {
	const most = 64 // more are not compared
	name := d.in[at.start:at.end]
	bit := uint64(1)
	if n := len(name); n > 0 {
		bit <<= (uint(n)*7 + uint(name[0])*31 + uint(name[n-1])) % 64
	}
	names := d.store.names[mark:]
	if len(names) >= most {
		d.rough = true
		return seen
	}
	if seen&bit != 0 {
		for _, known := range names {
			d.rough = d.rough || d.in[known.start:known.end] == name
		}
	}
	d.store.names = append(d.store.names, at)
	return seen | bit
}

// skip checks the value at d.at and steps over it.
func (d *Decoder) skip(depth int) error {
	if err := d.count(); err != nil {
		return err
	}
	switch c := d.peek(); {
	case c == '"':
		if end := plainUpTo(d.in, d.at+1); end < len(d.in) && d.in[end] == '"' {
			d.at = end + 1
			return nil
		}
		_, err := d.skipText()
		return err
	case c == '{':
		return d.members(depth, keepNone)
	case c == '[':
		return d.skipArray(depth)
	case c == '-' || numeral.IsDigit(c):
		_, _, err := d.digitsOfNumber()
		return err
	}
	_, err := d.word()
	return err
}

func (d *Decoder) skipArray(depth int) error {
	if err := d.enter(depth); err != nil {
		return err
	}
	if d.peek() == ']' {
		d.at++
		return nil
	}
	for more := true; more; {
		if err := d.skip(depth + 1); err != nil {
			return err
		}
		var err error
		if more, err = d.next(']'); err != nil {
			return err
		}
	}
	return nil
}

// isPlainNumber reports whether the encoder would write the number as it stands.
func isPlainNumber(text string, integer bool) bool {
	if text[0] == '-' {
		text = text[1:]
		if text[0] == '0' && integer {
			return false
		}
	}
	if len(text) > exactDigits {
		return false
	}
	if integer {
		return true
	}
	dot := 0
	for dot < len(text) && numeral.IsDigit(text[dot]) {
		dot++
	}
	const pointUpTo, zeros = 6, "0.0000" // beyond, and below, there is an exponent
	if dot > pointUpTo || text[dot] != '.' || len(text) >= len(zeros) && text[:len(zeros)] == zeros {
		return false
	}
	for _, c := range []byte(text[dot+1:]) {
		if !numeral.IsDigit(c) {
			return false
		}
	}
	return text[len(text)-1] != '0'
}

// Object writes a lazy object: as it stands if nothing of it can have changed.
func (e *Encoder) lazyObject(dst []byte, o *Object, depth int) ([]byte, error) {
	if o.opened || !o.plain || depth+o.deepest-o.depth >= maxDepth {
		Settle(&o.LTable)
		return e.object(dst, &o.LTable, depth)
	}
	if e.nodes -= o.values; e.nodes < 0 {
		return dst, e.tooMany()
	}
	if err := e.spend(o.values + (o.end-o.start)/hostapi.BytesPerInstruction); err != nil {
		return dst, err
	}
	return e.add(dst, o.text[o.start:o.end])
}
