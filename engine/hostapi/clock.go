package hostapi

import (
	"math"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// timeCost is what formatting or parsing a time costs.
	timeCost = 10
	// timeBytes are allocated for that.
	timeBytes = 256
	// maxTimeText is how long a text may be that is parsed as a time.
	maxTimeText = 64
	// microsecond is what a double can tell apart, some centuries around now.
	microsecond = 1e-6
)

// Times that have a year of four digits.
var (
	firstTime = float64(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	afterTime = float64(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
)

// processStart is where Monotonic counts from.
var processStart = time.Now()

// Now returns the time that the call is to see.
func (c *Call) Now() time.Time {
	if c.Clock != nil {
		return c.Clock()
	}
	return time.Now()
}

// Seconds returns a time as programs have it: in seconds since 1970, with fractions.
func Seconds(t time.Time) float64 { return float64(t.UnixMicro()) * microsecond }

// Monotonic returns seconds that only ever become more.
func (c *Call) Monotonic() float64 {
	if c.Clock != nil {
		return Seconds(c.Now())
	}
	return time.Since(processStart).Seconds()
}

// layout returns what Go calls a format of times. All are in UTC.
func layout(format string) (string, *script.Error) {
	switch format {
	case "rfc3339":
		return time.RFC3339Nano, nil
	case "http":
		return "Mon, 02 Jan 2006 15:04:05 GMT", nil // RFC 9110
	}
	return "", fault("format", "want rfc3339 or http")
}

func (c *Call) payTime() *script.Error {
	if !c.Pay(timeCost) || !c.Make(timeBytes) {
		return stopped()
	}
	return nil
}

// FormatTime writes a time in the format: "rfc3339" or "http".
func (c *Call) FormatTime(seconds float64, format string) (string, *script.Error) {
	written, err := layout(format)
	if err != nil {
		return "", err
	}
	if math.IsNaN(seconds) || seconds < firstTime || seconds >= afterTime {
		return "", fault("t", "want a time between the years 0 and 9999")
	}
	if err := c.payTime(); err != nil {
		return "", err
	}
	whole, fraction := math.Modf(seconds)
	micros := int64(math.Round(fraction / microsecond))
	return time.Unix(int64(whole), micros*int64(time.Microsecond)).UTC().Format(written), nil
}

// ParseTime reads a time in the format. A problem is with a text that came from outside: no mistake of the program,
// which may want to go on.
func (c *Call) ParseTime(text, format string) (seconds float64, problem string, err *script.Error) {
	written, err := layout(format)
	if err != nil {
		return 0, "", err
	}
	if err := c.payTime(); err != nil {
		return 0, "", err
	}
	if len(text) <= maxTimeText {
		if date, err := time.Parse(written, text); err == nil {
			return Seconds(date), "", nil
		}
	}
	return 0, "not a time in that format", nil
}

// ParseDuration reads a duration such as 1h30m. It reports problems as ParseTime does.
func (c *Call) ParseDuration(text string) (seconds float64, problem string, err *script.Error) {
	if err := c.payTime(); err != nil {
		return 0, "", err
	}
	if len(text) <= maxTimeText {
		if d, err := time.ParseDuration(text); err == nil {
			return d.Seconds(), "", nil
		}
	}
	return 0, "not a duration such as 1h30m or 250ms", nil
}
