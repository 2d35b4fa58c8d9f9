package scriptorium

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/scriptorium-dev/scriptorium/embed"
)

const directive = "scriptorium"

func init() {
	httpcaddyfile.RegisterGlobalOption(directive, parseGlobal)
	httpcaddyfile.RegisterHandlerDirective(directive, parseDirective)
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "forward_auth")
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)

// parseGlobal parses the global option, whose settings hold for all directives:
//
//	scriptorium {
//		<setting of agentd, with _ in place of -> <value…>
//	}
func parseGlobal(d *caddyfile.Dispenser, before any) (any, error) {
	cfg, _ := before.(*embed.Config)
	if cfg == nil {
		cfg = &embed.Config{}
	}
	d.Next() // the name of the option
	if d.NextArg() {
		return nil, d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := configure(cfg, d); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := &Handler{}
	if err := handler.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	global, _ := h.Option(directive).(*embed.Config)
	if handler.Agent == nil && handler.Socket == "" {
		handler.Agent = global
	}
	return handler, nil
}

// UnmarshalCaddyfile parses the directive:
//
//	scriptorium [<matcher>] <tenant>/<script>|event=<name>/<tenant> {
//		fail    closed|open
//		timeout <duration>
//		body    <size>
//		param   <name> <value>
//		key     <part of the request>
//		encoded_slashes
//		socket  <path>
//		<setting of agentd, with _ in place of -> <value…>
//	}
//
// Settings of an agent here make it another than that of the global option.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the directive
	if !d.Args(&h.Script) {
		return d.ArgErr()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		parse, own := settings[d.Val()]
		if own {
			if err := parse(h, d); err != nil {
				return err
			}
			continue
		}
		if h.Agent == nil {
			h.Agent = &embed.Config{}
		}
		if err := configure(h.Agent, d); err != nil {
			return err
		}
	}
	return nil
}

// settings of the directive itself.
var settings = map[string]func(*Handler, *caddyfile.Dispenser) error{
	"fail":   func(h *Handler, d *caddyfile.Dispenser) error { return only(d, &h.Fail) },
	"key":    func(h *Handler, d *caddyfile.Dispenser) error { return only(d, &h.Key) },
	"socket": func(h *Handler, d *caddyfile.Dispenser) error { return only(d, &h.Socket) },
	"timeout": func(h *Handler, d *caddyfile.Dispenser) error {
		var text string
		if err := only(d, &text); err != nil {
			return err
		}
		timeout, err := caddy.ParseDuration(text)
		if err != nil || timeout <= 0 {
			return d.Errf("timeout: %q is not a positive duration such as 20ms", text)
		}
		h.Timeout = caddy.Duration(timeout)
		return nil
	},
	"body": func(h *Handler, d *caddyfile.Dispenser) error {
		return size(d, func(n int64) { h.Body = n })
	},
	"param": func(h *Handler, d *caddyfile.Dispenser) error {
		return pair(d, &h.Params)
	},
	"encoded_slashes": func(h *Handler, d *caddyfile.Dispenser) error {
		h.EncodedSlashes = true
		return only(d)
	},
}

// only takes exactly these arguments.
func only(d *caddyfile.Dispenser, targets ...*string) error {
	if !d.Args(targets...) || d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// size takes a number of bytes, such as 16KiB.
func size(d *caddyfile.Dispenser, set func(int64)) error {
	name, text := d.Val(), ""
	if err := only(d, &text); err != nil {
		return err
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || int64(n) < 0 {
		return d.Errf("%s: %q is not a size such as 16KiB", name, text)
	}
	set(int64(n))
	return nil
}

// pair takes a name and a value.
func pair(d *caddyfile.Dispenser, into *map[string]string) error {
	var name, value string
	if err := only(d, &name, &value); err != nil {
		return err
	}
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)[name] = value
	return nil
}

// fields are the indexes of the fields of embed.Config by their names in JSON.
var fields = func() map[string]int {
	found := map[string]int{}
	for i := range reflect.TypeFor[embed.Config]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[embed.Config]().Field(i).Tag.Get("json"), ",")
		if name != "-" {
			found[name] = i
		}
	}
	return found
}()

// configure parses one setting of an agent.
func configure(cfg *embed.Config, d *caddyfile.Dispenser) error {
	name := d.Val()
	i, known := fields[name]
	if !known {
		return d.Errf("%s is no setting: want %s, or in a directive %s", name,
			strings.Join(slices.Sorted(maps.Keys(fields)), ", "), strings.Join(slices.Sorted(maps.Keys(settings)), ", "))
	}
	switch field := reflect.ValueOf(cfg).Elem().Field(i).Addr().Interface().(type) {
	case *string:
		return only(d, field)
	case *bool:
		*field = true
		return only(d)
	case *[]string:
		values := d.RemainingArgs()
		if len(values) == 0 {
			return d.ArgErr()
		}
		*field = append(*field, values...)
		return nil
	case *map[string]string:
		return pair(d, field)
	case *int64:
		return size(d, func(n int64) { *field = n })
	case *int:
		var text string
		if err := only(d, &text); err != nil {
			return err
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return d.Errf("%s: %q is not a number", name, text)
		}
		*field = n
		return nil
	default:
		return fmt.Errorf("%s: a field of type %T cannot be in a Caddyfile", name, field)
	}
}
