// Package obs is how Scriptorium's processes can be observed: structured logs,
// and an HTTP listener with liveness, readiness and metrics.
package obs

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/script"
)

// LogOptions say what is logged and how.
type LogOptions struct {
	Level  slog.Level
	Format string // "text" or "json"
}

// AddFlags defines --log-level and --log-format.
func (o *LogOptions) AddFlags(flags *pflag.FlagSet) {
	flags.TextVar(&o.Level, "log-level", slog.LevelInfo, "least `level` that is logged: debug, info, warn or error")
	flags.StringVar(&o.Format, "log-format", "json", "format of the log: json or text")
}

// NewLogger returns a logger to w as the options say.
func (o *LogOptions) NewLogger(w io.Writer) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: o.Level}
	switch o.Format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return nil, script.Errorf(script.Invalid, "--log-format", "%q is neither json nor text", o.Format)
}
