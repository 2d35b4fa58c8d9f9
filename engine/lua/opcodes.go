package lua

// How gopher-lua packs an instruction: the operation is in the highest bits, then come
// A, C and B; or A and Bx, which takes the place of both.
const (
	opcodeShift    = 26
	shiftA, shiftC = 18, 9
	maskA, maskBC  = 0xff, 0x1ff
	maskBx         = 1<<shiftA - 1

	// constantOperand is set in a B or C that is a constant, not a register.
	constantOperand = 0x100
)
