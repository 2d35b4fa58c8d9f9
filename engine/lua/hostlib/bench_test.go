package hostlib_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// BenchmarkAPI calls each function of the host API once a call; "nothing" is what a
// call costs anyhow.
func BenchmarkAPI(b *testing.B) {
	const request = `{"method":"GET","path":"/users/42","headers":{"accept":"*/*","host":"a.example","user-agent":"x","x-user":"ann"}}`
	for name, body := range map[string]string{
		"nothing":            ``,
		"get_request_header": `get_request_header("X-User")`,
		"log":                `log.info("checked in")`,
		"log with fields":    `log.info("checked in", {user = "ann", items = 3})`,
		"kv.get":             `kv.get("motd")`,
		"kv.json":            `local v = kv.json("flags").beta`,
		"counter.add":        `counter.add("calls")`,
		"ratelimit.allow":    `ratelimit.allow("all", {rate = 1e9})`,
		"re.test":            `re.test("/users/42", "^/(users|groups)/\\d+$")`,
		"re.gsub":            `re.gsub("/users/42", "\\d", "*")`,
		"string.match":       `string.match("/users/42", "^/users/%d+$")`,
		"crypto.sha256":      `crypto.sha256("ann")`,
		"crypto.uuid":        `crypto.uuid()`,
		"base64.decode":      `base64.decode("YW5uOnNlY3JldA==")`,
		"time.format":        `time.format(1700000000)`,
	} {
		b.Run(name, func(b *testing.B) {
			p, err := lua.New().Compile(engine.Source{Code: []byte("function handle(request) " + body + " end"), Entrypoint: "handle"})
			if err != nil {
				b.Fatal(err)
			}
			inv := &engine.Invocation{
				Tenant: "acme", Script: "edge", Args: [][]byte{[]byte(request)}, Limits: script.Limits{Timeout: luatest.Patient},
				Host: discardHost{&enginetest.Host{Values: map[string]map[string]string{"acme": {"motd": "hello", "flags": `{"beta":true,"percent":5}`}}}},
			}
			var res engine.Result
			b.ReportAllocs()
			for b.Loop() {
				res.Reset()
				if err := p.Run(b.Context(), inv, &res); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// discardHost keeps no lines.
type discardHost struct{ *enginetest.Host }

func (discardHost) Log(*engine.Invocation, engine.Level, string) {}
