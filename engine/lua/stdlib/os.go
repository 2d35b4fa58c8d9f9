package stdlib

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// osFunctions is what there is of os: time. All times are UTC, whatever zone the
// node is in.
var osFunctions = map[string]vm.LGFunction{
	"clock":    osClock,
	"date":     osDate,
	"difftime": osDifftime,
	"time":     osTime,
}

// osClock returns the seconds since the call began.
func osClock(l *vm.LState) int {
	elapsed := time.Since(bind.CallOf(l).Started)
	if bind.HostOf(l).Clock != nil {
		elapsed = 0 // it stands still
	}
	return l.Return(vm.LNumber(elapsed.Seconds()))
}

func osDifftime(l *vm.LState) int {
	earlier := 0.0
	if l.Get(2) != vm.LNil {
		earlier = bind.ArgNumber(l, 2)
	}
	l.Push(vm.LNumber(math.Trunc(bind.ArgNumber(l, 1)) - math.Trunc(earlier) + 0)) // and so never -0
	return 1
}

// Bounds of a table's fields, so that no time overflows.
const maxTimeField = 1 << 31

func osTime(l *vm.LState) int {
	if l.Get(1) == vm.LNil {
		return l.Return(vm.LNumber(bind.HostOf(l).Now().Unix()))
	}
	t := bind.ArgTable(l)
	field := func(name string, otherwise int) int {
		switch v := t.RawGetString(name).(type) {
		case vm.LNumber:
			return max(-maxTimeField, min(bind.ToInt(float64(v)), maxTimeField))
		case vm.LString:
			if f, ok := bind.TextNumber(l, v); ok {
				return max(-maxTimeField, min(bind.ToInt(float64(f)), maxTimeField))
			}
		}
		if otherwise < 0 {
			l.RaiseError("field '%s' missing in date table", name)
		}
		return otherwise
	}
	second, minute, hour := field("sec", 0), field("min", 0), field("hour", 12)
	day, month, year := field("day", -1), field("month", -1), field("year", -1)
	date := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	return l.Return(vm.LNumber(date.Unix()))
}

// dateFieldCost is what formatting one field costs.
const dateFieldCost = 10

// maxTime is beyond the year 9999.
const maxTime = 1 << 40

func osDate(l *vm.LState) int {
	format := strings.TrimPrefix(bind.OptString(l, 1, "%c"), "!")
	var date time.Time
	if l.Get(2) != vm.LNil {
		date = time.Unix(int64(max(-maxTime, min(bind.ArgInt(l, 2), maxTime))), 0).UTC()
	} else {
		date = bind.HostOf(l).Now().UTC()
	}
	if strings.HasPrefix(format, "*t") {
		t := dateTable(date)
		bind.AllocateTable(l, t)
		return l.Return(t)
	}
	t := bind.NewText(l, 0)
	for {
		plain, field, found := strings.Cut(format, "%")
		t.Add(plain)
		if field == "" {
			if found {
				t.AddByte('%')
			}
			break
		}
		l.Charge(dateFieldCost)
		t.Add(dateField(date, field[0]))
		format = field[1:]
	}
	return l.Return(t.Value())
}

func dateTable(date time.Time) *vm.LTable {
	t := &vm.LTable{}
	for _, field := range []struct {
		name  string
		value int
	}{
		{"year", date.Year()},
		{"month", int(date.Month())},
		{"day", date.Day()},
		{"hour", date.Hour()},
		{"min", date.Minute()},
		{"sec", date.Second()},
		{"wday", int(date.Weekday()) + 1},
		{"yday", date.YearDay()},
	} {
		t.RawSetString(field.name, vm.LNumber(field.value))
	}
	t.RawSetString("isdst", vm.LFalse)
	return t
}

var dateLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006",
	'd': "02", 'D': "01/02/06", 'e': "_2", 'F': "2006-01-02", 'h': "Jan", 'H': "15", 'I': "03",
	'm': "01", 'M': "04", 'p': "PM", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': "15:04:05",
	'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
}

// dateField returns what stands for "%verb", as strftime has it in the C locale.
func dateField(date time.Time, verb byte) string {
	if layout, ok := dateLayouts[verb]; ok {
		if verb == 'Z' {
			return "GMT"
		}
		return date.Format(layout)
	}
	switch verb {
	case '%':
		return "%"
	case 'j':
		return fmt.Sprintf("%03d", date.YearDay())
	case 'n':
		return "\n"
	case 's':
		return strconv.FormatInt(date.Unix(), 10)
	case 't':
		return "\t"
	case 'u':
		return strconv.Itoa((int(date.Weekday())+6)%7 + 1)
	case 'U':
		return fmt.Sprintf("%02d", (date.YearDay()+6-int(date.Weekday()))/7)
	case 'w':
		return strconv.Itoa(int(date.Weekday()))
	case 'W':
		return fmt.Sprintf("%02d", (date.YearDay()+6-(int(date.Weekday())+6)%7)/7)
	}
	return "%" + string(verb)
}
