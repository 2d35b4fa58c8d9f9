package engine

// Result collects the values that a program returned, as JSON, in one buffer
// that is kept from call to call. The zero Result is ready to use. It is not
// safe for concurrent use.
type Result struct {
	buf  []byte
	ends []int
}

// Reset forgets all values and keeps the buffer.
func (r *Result) Reset() {
	r.buf = r.buf[:0]
	r.ends = r.ends[:0]
}

// Len returns the number of values.
func (r *Result) Len() int { return len(r.ends) }

// Value returns the i-th value, valid until the next Reset.
func (r *Result) Value(i int) []byte {
	start := 0
	if i > 0 {
		start = r.ends[i-1]
	}
	return r.buf[start:r.ends[i]:r.ends[i]]
}

// Bytes returns the size of all values together.
func (r *Result) Bytes() int { return len(r.buf) }

// Held returns how many bytes it keeps for values, those of the past included.
func (r *Result) Held() int { return cap(r.buf) }

// Append adds the value that encode appends to its argument. If encode fails,
// nothing is added and its error is returned.
func (r *Result) Append(encode func(dst []byte) ([]byte, error)) error {
	buf, err := encode(r.buf)
	if err != nil {
		return err
	}
	r.buf = buf
	r.ends = append(r.ends, len(buf))
	return nil
}
