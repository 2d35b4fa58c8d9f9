package stdlib

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// directive is one "%…" of string.format.
type directive struct {
	minus, plus, blank, alternate, zero bool

	width     int
	precision int // -1 if there is none
	verb      byte
}

func stringFormat(l *vm.LState) int {
	format := bind.ArgString(l, 1)
	t := bind.NewText(l, 0)
	arg := 1
	for i := 0; i < len(format); {
		at := strings.IndexByte(format[i:], '%')
		if at < 0 {
			at = len(format) - i
		}
		t.Add(format[i : i+at])
		i += at
		if i < len(format) {
			if i+1 < len(format) && format[i+1] == '%' {
				t.AddByte('%')
				i += 2
			} else {
				if arg++; arg > l.GetTop() {
					bind.ArgError(l, arg, "no value")
				}
				var d directive
				d, i = parseDirective(l, format, i+1)
				d.add(&t, arg)
			}
		}
		l.Charge(1)
	}
	return l.Return(t.Value())
}

// parseDirective reads the directive whose '%' is before at, and returns where
// it ends.
func parseDirective(l *vm.LState, format string, at int) (directive, int) {
	d := directive{precision: -1}
	peek := func() byte {
		if at < len(format) {
			return format[at]
		}
		return 0
	}
	for flags := 0; ; flags++ {
		flag := d.flag(peek())
		if flag == nil {
			break
		}
		if flags == 5 {
			l.RaiseError("invalid format (repeated flags)")
		}
		*flag = true
		at++
	}
	number := func() int {
		n := 0
		for digits := 0; numeral.IsDigit(peek()); digits++ {
			if digits == 2 {
				l.RaiseError("invalid format (width or precision too long)")
			}
			n = 10*n + int(peek()-'0')
			at++
		}
		return n
	}
	d.width = number()
	if peek() == '.' {
		at++
		d.precision = number()
	}
	d.verb = peek()
	return d, at + 1
}

// flag returns the flag that c sets, or nil.
func (d *directive) flag(c byte) *bool {
	switch c {
	case '-':
		return &d.minus
	case '+':
		return &d.plus
	case ' ':
		return &d.blank
	case '#':
		return &d.alternate
	case '0':
		return &d.zero
	}
	return nil
}

// add adds the n-th argument as d says.
func (d *directive) add(t *bind.Text, n int) {
	l := t.L
	switch d.verb {
	case 'c':
		d.pad(t, string([]byte{byte(bind.ArgInt(l, n))}))
	case 'd', 'i':
		d.pad(t, d.integer(bind.ArgNumber(l, n)))
	case 'o', 'u', 'x', 'X':
		d.pad(t, d.unsigned(bind.ArgNumber(l, n)))
	case 'e', 'E', 'f', 'g', 'G':
		digits := d.float(bind.ArgNumber(l, n))
		bind.Allocate(l, len(digits))
		d.pad(t, digits)
	case 'q':
		addQuoted(t, bind.ArgString(l, n))
	case 's':
		s := bind.ToString(l, bind.ArgAny(l, n))
		if d.precision >= 0 {
			s = s[:min(d.precision, len(s))]
		}
		d.zero = false
		d.pad(t, s)
	default:
		l.RaiseError("invalid option '%%%s' to 'format'", strings.TrimRight(string([]byte{d.verb}), "\x00"))
	}
}

// pad adds s, blank-padded to the width. (Zeros are part of s.)
func (d *directive) pad(t *bind.Text, s string) {
	blanks := strings.Repeat(" ", max(d.width-len(s), 0))
	if d.minus {
		t.Add(s)
		t.Add(blanks)
		return
	}
	t.Add(blanks)
	t.Add(s)
}

// signed puts sign and zeros before digits.
func (d *directive) signed(sign, digits string) string {
	zeros := d.precision - len(digits)
	if d.precision < 0 && d.zero && !d.minus {
		zeros = d.width - len(sign) - len(digits)
	}
	return sign + strings.Repeat("0", max(zeros, 0)) + digits
}

func (d *directive) integer(f float64) string {
	n := toInt64(f)
	digits := strconv.FormatUint(absolute(n), 10)
	if d.precision == 0 && n == 0 {
		digits = ""
	}
	return d.signed(d.sign(n < 0), digits)
}

func (d *directive) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case d.plus:
		return "+"
	case d.blank:
		return " "
	}
	return ""
}

func (d *directive) unsigned(f float64) string {
	n := uint64(toInt64(f))
	if f >= 1<<63 && f < 1<<64 {
		n = uint64(f)
	}
	base := 16
	switch d.verb {
	case 'o':
		base = 8
	case 'u':
		base = 10
	}
	digits, prefix := strconv.FormatUint(n, base), ""
	if d.precision == 0 && n == 0 {
		digits = ""
	}
	if d.alternate {
		switch {
		case base == 8 && !strings.HasPrefix(digits, "0"):
			digits = "0" + digits
		case base == 16 && n != 0:
			prefix = "0x"
		}
	}
	text := d.signed(prefix, digits)
	if d.verb == 'X' {
		text = strings.ToUpper(text)
	}
	return text
}

// float leaves signs, zeros and precision to fmt, which does as C does.
func (d *directive) float(f float64) string {
	var flags strings.Builder
	for _, flag := range []struct {
		set  bool
		text string
	}{{d.plus, "+"}, {d.blank, " "}, {d.alternate, "#"}} {
		if flag.set {
			flags.WriteString(flag.text)
		}
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		text := strings.TrimLeft(numeral.Format(f), "-")
		if d.verb < 'a' {
			text = strings.ToUpper(text)
		}
		return d.sign(math.IsInf(f, -1)) + text
	}
	if d.zero && !d.minus {
		flags.WriteString("0" + strconv.Itoa(d.width))
	}
	precision := d.precision
	if precision < 0 {
		precision = 6
	}
	return fmt.Sprintf("%"+flags.String()+"."+strconv.Itoa(precision)+string(d.verb), f)
}

func absolute(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// toInt64 cuts f to an integer, as far as one holds it.
func toInt64(f float64) int64 {
	switch {
	case math.IsNaN(f), f < -(1 << 63), f >= 1<<63:
		return math.MinInt64 // as C does on common machines
	}
	return int64(f)
}

// addQuoted adds s to t as a literal that Lua reads back.
func addQuoted(t *bind.Text, s string) {
	t.AddByte('"')
	begin := 0
	for i := range len(s) {
		if i-begin == bind.PaidAtOnce {
			t.Add(s[begin:i])
			begin = i
		}
		var escape string
		switch s[i] {
		case '"', '\\', '\n':
			escape = `\`
		case '\r':
			escape = `\r`
		case 0:
			escape = `\000`
		default:
			continue
		}
		t.Add(s[begin:i])
		t.Add(escape)
		if begin = i; len(escape) > 1 { // which stands for it
			begin++
		}
	}
	t.Add(s[begin:])
	t.AddByte('"')
}
