package vm

import (
	"math"
	"unsafe"
)

// numbers makes values of numbers, in blocks: an interface refers to its number, and Go would allocate each alone.
type numbers struct{ block []LNumber }

const (
	numbersInBlock = 128 // which one number may hold on to; but each was made by an instruction
	smallNumbers   = 256 // are made once
)

var small = func() (small [smallNumbers]LValue) {
	for i := range small {
		small[i] = LNumber(i)
	}
	return small
}()

// anInterface is how Go lays out an interface with methods: what its type is, and where its value.
type anInterface struct{ table, value unsafe.Pointer }

var numberTable = func() unsafe.Pointer {
	v := LValue(LNumber(math.Pi))
	return (*anInterface)(unsafe.Pointer(&v)).table
}()

func (a *numbers) value(n LNumber) LValue {
	if n > 0 && n < smallNumbers {
		if i := int(n); LNumber(i) == n {
			return small[i]
		}
	}
	if len(a.block) == cap(a.block) {
		a.block = make([]LNumber, 0, numbersInBlock)
	}
	a.block = append(a.block, n)
	var v LValue
	*(*anInterface)(unsafe.Pointer(&v)) = anInterface{numberTable, unsafe.Pointer(&a.block[len(a.block)-1])}
	return v
}
