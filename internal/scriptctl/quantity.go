package scriptctl

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The units of sizes, as Kubernetes writes them. A number alone is bytes.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"Ki", 1 << 10},
	{"Mi", 1 << 20},
	{"Gi", 1 << 30},
	{"k", 1e3},
	{"M", 1e6},
	{"G", 1e9},
}

// sizeValue is a flag that takes a number of bytes: 65536, 64Ki or 1.5Mi.
type sizeValue int64

// String implements pflag.Value.
func (v *sizeValue) String() string {
	if *v == 0 {
		return ""
	}
	return exactSize(int64(*v))
}

// Type implements pflag.Value.
func (*sizeValue) Type() string { return "size" }

// Set implements pflag.Value.
func (v *sizeValue) Set(text string) error {
	number, unit := text, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			number, unit = rest, u.bytes
			break
		}
	}
	n, err := decimal(number)
	if bytes := n * float64(unit); err == nil && bytes == math.Trunc(bytes) && bytes < 1<<53 {
		*v = sizeValue(bytes)
		return nil
	}
	return script.Errorf(script.Invalid, "", "%.80q is not a size: want a number of bytes, such as 65536, 64Ki or 16Mi", text)
}

// cpuValue is a flag that takes a share of processors: 500m, or 0.5, is half a core.
type cpuValue int

// String implements pflag.Value.
func (v *cpuValue) String() string {
	if *v == 0 {
		return ""
	}
	return cores(int(*v))
}

// Type implements pflag.Value.
func (*cpuValue) Type() string { return "cores" }

// Set implements pflag.Value.
func (v *cpuValue) Set(text string) error {
	number, unit := text, 1000.0
	if rest, ok := strings.CutSuffix(text, "m"); ok {
		number, unit = rest, 1
	}
	n, err := decimal(number)
	if thousandths := math.Round(n * unit); err == nil && math.Abs(thousandths-n*unit) < 1e-6 && thousandths < 1<<31 {
		*v = cpuValue(thousandths)
		return nil
	}
	return script.Errorf(script.Invalid, "", "%.80q is not a number of cores: want thousandths, such as 500m, or cores, such as 0.5", text)
}

// decimal reads a number of digits and a point, and nothing else that floats may be.
func decimal(text string) (float64, error) {
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(text, 64)
}

// byteSize writes a number of bytes: 512B, 64Ki, 1.5Mi. What has no short form is
// rounded to one decimal.
func byteSize(n int64) string {
	for i := 2; i >= 0; i-- {
		unit := sizeUnits[i]
		if n >= unit.bytes {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(unit.bytes)), ".0") + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// exactSize writes a number of bytes so that nothing of it is lost: 64Ki, 1000.
func exactSize(n int64) string {
	for i := 2; i >= 0; i-- {
		if unit := sizeUnits[i]; n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// cores writes thousandths of a core: 500m, 2.
func cores(thousandths int) string {
	if thousandths%1000 == 0 {
		return strconv.Itoa(thousandths / 1000)
	}
	return strconv.Itoa(thousandths) + "m"
}
