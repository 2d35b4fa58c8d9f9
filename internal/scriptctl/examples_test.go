package scriptctl_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	kyaml "sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/docs/api"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// What the A/B example returns.
const (
	variantA = `{"headers":{"set":{"x-variant":"a"}},"metadata":{"experiment":"new-checkout","variant":"a"},"upstream":"checkout"}`
	variantB = `{"headers":{"set":{"x-variant":"b"}},"metadata":{"experiment":"new-checkout","variant":"b"},"upstream":"checkout-next"}`
)

// fromGateway returns a request as docs/api/request.md says that gateways send it.
func fromGateway(path string, headers map[string]any) string {
	all := map[string]any{"accept": "*/*", "host": "shop.example", "user-agent": "curl/8.5.0"}
	maps.Copy(all, headers)
	text, err := json.Marshal(map[string]any{
		"method": "GET", "scheme": "https", "host": "shop.example", "path": path, "query": "", "headers": all, "remote_addr": "203.0.113.4",
		"tenant": "acme", "config": map[string]any{},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// requestField is a field that a script reads from its request.
var requestField = regexp.MustCompile(`\brequest\.(\w+)`)

// TestExamplesReadWhatGatewaysSend: examples for gateways read no field but those of the
// class Request in docs/api/scriptorium.lua.
func TestExamplesReadWhatGatewaysSend(t *testing.T) {
	known := map[string]bool{}
	for _, c := range api.Parse(api.Globals).Classes {
		for _, f := range c.Fields {
			if c.Name == "Request" {
				known[f.Name] = true
			}
		}
	}
	manifests, err := manifest.Load("../../examples/scripts")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, m := range manifests {
		if m.Settings.Trigger.Event != "http-request" {
			continue
		}
		for _, field := range requestField.FindAllStringSubmatch(string(m.Source), -1) {
			if read++; !known[field[1]] {
				t.Errorf("%s reads request.%s, which no gateway sends: there are %v", m.Name, field[1], slices.Sorted(maps.Keys(known)))
			}
		}
	}
	if read < 4 {
		t.Errorf("found %d fields: do the patterns still match?", read)
	}
}

// TestExamples runs each of the examples and knows the right answers.
func TestExamples(t *testing.T) {
	answers := map[string][]struct{ arg, want string }{
		"acme/route": {
			{fromGateway("/api/cart", nil), `{"upstream":"cart"}`},
			{fromGateway("/api/orders", nil), `{"upstream":"api"}`},
			{fromGateway("/", map[string]any{"x-beta": "yes"}), `{"upstream":"web-beta"}`},
			{fromGateway("/", nil), `{"upstream":"web"}`},
			{`{"path":"/api/cart"}`, `{"upstream":"cart"}`},
			{`{}`, `{"upstream":"web"}`},
		},
		"acme/greet": {
			{`"Ada"`, `"Hello, Ada!"`},
		},
		"acme/ab-split": {
			{fromGateway("/", map[string]any{"cookie": "theme=dark; session=ada"}), variantA},
			{fromGateway("/checkout", map[string]any{"cookie": "theme=dark; session=mia"}), variantB},
			{fromGateway("/", map[string]any{"cookie": []string{"theme=dark", "session=mia"}}), variantB},
			{fromGateway("/", nil), variantB}, // by the address
			{`{"remote_addr":"203.0.113.9"}`, variantA},
			{`{}`, variantA},
		},
		"acme/deployment-health": {
			{`{"obj":{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"readyReplicas":3}}}`, `{"message":"3 of 3 replicas are ready","status":"Healthy"}`},
			{`{"obj":{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"readyReplicas":1}}}`, `{"message":"1 of 3 replicas are ready","status":"Progressing"}`},
			{`{"obj":{"metadata":{"generation":1},"spec":{}}}`, `{"message":"Waiting for the first status","status":"Progressing"}`},
			{`{"obj":{"metadata":{},"spec":{},"status":{"conditions":[{"type":"Progressing","reason":"ProgressDeadlineExceeded","message":"too slow"}]}}}`, `{"message":"too slow","status":"Degraded"}`},
		},
	}
	manifests, err := manifest.Load("../../examples/scripts")
	if err != nil {
		t.Fatal(err)
	}
	if len(manifests) != len(answers) {
		t.Errorf("there are %d examples and answers for %d", len(manifests), len(answers))
	}
	for _, m := range manifests {
		t.Run(m.Name.String(), func(t *testing.T) {
			program, err := lua.New().Compile(engine.Source{Code: m.Source, Entrypoint: m.Entrypoint})
			if err != nil {
				t.Fatal(m.Locate(err))
			}
			defer program.Close()
			for _, a := range answers[m.Name.String()] {
				var result engine.Result
				err := program.Run(t.Context(), &engine.Invocation{
					Tenant: m.Name.Tenant, Args: [][]byte{[]byte(a.arg)}, Config: m.Settings.Config, Limits: unhurried(m.Settings.Limits),
				}, &result)
				if err != nil {
					t.Errorf("%s: %v", a.arg, err)
					continue
				}
				if d := cmp.Diff(decode(t, []byte(a.want)), decode(t, result.Value(0))); d != "" {
					t.Errorf("%s: %s", a.arg, d)
				}
			}
		})
	}
}

// TestExampleOverRedis: any Redis client calls what was published.
func TestExampleOverRedis(t *testing.T) {
	p := person{t, startFleet(t, 1)}
	if out, code := p.run("", "publish", "-f", "../../examples/scripts", "--wait"); code != 0 {
		t.Fatal(code, out)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: filepath.Join(p.dir, "agent-1", "resp.sock")})
	defer client.Close()
	got, err := client.Do(t.Context(), "FCALL", "acme/route", 0, fromGateway("/api/cart", nil)).Text()
	if err != nil || got != `{"upstream":"cart"}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestExampleOfKruise: an agent and scriptctl krm make the same canary route.
func TestExampleOfKruise(t *testing.T) {
	const dir = "../../examples/kruise/"
	if stdout, stderr, code := run(t, "test", dir); code != 0 || !strings.HasPrefix(stdout, "ok ") {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	request, err := os.ReadFile(dir + "requests/step.json")
	if err != nil {
		t.Fatal(err)
	}
	p := person{t, startFleet(t, 1)}
	if out, code := p.run("", "publish", dir+"canary-route.yaml", "--wait"); code != 0 {
		t.Fatal(code, out)
	}
	type route struct{ Spec any }
	var called, made route
	out, code := p.run("", "call", "acme/canary-route", string(request), "--agent-socket", filepath.Join(p.dir, "agent-1", "grpc.sock"))
	if err := json.Unmarshal([]byte(out), &called); code != 0 || err != nil {
		t.Fatalf("%d: %s, %v", code, out, err)
	}
	stdout, stderr, code := run(t, "krm", "-f", dir+"canary-route.yaml", dir+"requests/virtualservice.yaml")
	if err := kyaml.Unmarshal([]byte(stdout), &made); code != 0 || err != nil {
		t.Fatalf("%d: %s%s, %v", code, stdout, stderr, err)
	}
	want := decode(t, []byte(`{"hosts":["shop.example"],"http":[{"route":[{"destination":{"host":"shop"},"weight":80},{"destination":{"host":"shop-canary"},"weight":20}]}]}`))
	for by, got := range map[string]any{"the agent": called.Spec, "krm": made.Spec} {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("by %s: %s", by, d)
		}
	}
}

// unhurried are the limits on a machine that has other things to do as well.
func unhurried(l script.Limits) script.Limits {
	l.Timeout = script.MaxLimits().Timeout
	return l
}

func decode(t *testing.T, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

// TestSplitShare: about as many users get variant b as the manifest says.
func TestSplitShare(t *testing.T) {
	manifests, err := manifest.Load("../../examples/scripts/ab-split.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := manifests[0]
	program, err := lua.New().Compile(engine.Source{Code: m.Source, Entrypoint: m.Entrypoint})
	if err != nil {
		t.Fatal(m.Locate(err))
	}
	defer program.Close()
	const users, percent = 2000, 20
	share := 0
	for i := range users {
		var result engine.Result
		err := program.Run(t.Context(), &engine.Invocation{
			Tenant: m.Name.Tenant, Args: [][]byte{[]byte(fromGateway("/", map[string]any{"cookie": fmt.Sprintf("session=%d", i)}))}, Config: m.Settings.Config, Limits: unhurried(m.Settings.Limits),
		}, &result)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Metadata struct{ Variant string } }
		if err := json.Unmarshal(result.Value(0), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Metadata.Variant == "b" {
			share++
		}
	}
	if got := 100 * float64(share) / users; got < percent-3 || got > percent+3 {
		t.Errorf("%.1f %% of the users get variant b, want about %d", got, percent)
	}
}
