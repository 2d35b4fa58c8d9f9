package scriptorium

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/scriptorium-dev/scriptorium/client/middleware"
)

const (
	prefix = "scriptorium."
	// decided is the variable that has the last decision about a request.
	decided = prefix + "decision"
)

// place gives placeholders the values of a decision, in place of one before.
func place(ctx context.Context, d *middleware.Decision) {
	replacer, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if ok && caddyhttp.GetVar(ctx, decided) == nil {
		replacer.Map(func(key string) (any, bool) {
			name, ours := strings.CutPrefix(key, prefix)
			last, _ := caddyhttp.GetVar(ctx, decided).(*middleware.Decision)
			if !ours || last == nil {
				return nil, false
			}
			return valueOf(last, name)
		})
	}
	caddyhttp.SetVar(ctx, decided, d)
}

// valueOf returns the value of the placeholder with the name. What the decision has not is empty.
func valueOf(d *middleware.Decision, name string) (any, bool) {
	switch name {
	case "upstream":
		return d.Upstream, true
	case "reason":
		return d.Reason, true
	case "version":
		return strconv.FormatUint(d.Version, 10), true
	case "metadata":
		return string(d.Metadata), true
	}
	name, ok := strings.CutPrefix(name, "metadata.")
	if !ok {
		return nil, false
	}
	var metadata map[string]json.RawMessage
	if d.Metadata != nil && json.Unmarshal(d.Metadata, &metadata) != nil {
		return "", true
	}
	var text string
	if json.Unmarshal(metadata[name], &text) == nil {
		return text, true
	}
	return string(metadata[name]), true
}
