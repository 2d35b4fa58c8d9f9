package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// modules are two versions of a WebAssembly script, as sdk/build.sh builds them.
type modules struct {
	language     string // "" if there are none
	hello, route []byte
}

// findModules reads the modules in a folder such as sdk/out: those in Rust if they are built, or else those in Go. The
// note says why the demo does not show Rust.
func findModules(dir string) (m modules, note string, err error) {
	const install = "for one in Rust: apt-get install cargo libstd-rust-dev-wasm32 lld-14, and make demo"
	for _, m.language = range []string{"Rust", "Go"} {
		from := filepath.Join(dir, strings.ToLower(m.language))
		m.hello, err = os.ReadFile(filepath.Join(from, "hello.wasm"))
		if err == nil {
			m.route, err = os.ReadFile(filepath.Join(from, "route.wasm"))
		}
		switch {
		case err == nil && m.language == "Rust":
			return m, "", nil
		case err == nil:
			return m, "the module is one in Go; " + install, nil
		case !errors.Is(err, fs.ErrNotExist):
			return modules{}, "", err
		}
	}
	return modules{}, fmt.Sprintf("%s has no WebAssembly module: run sdk/build.sh rust, or name the folder with --modules", dir), nil
}

// engineChange is a version of a script in another runtime than Lua, and what each agent's answer has from then on.
type engineChange struct {
	script, engine string
	source         []byte
	has            string
}

// changeEngines changes a WebAssembly module and a Rego policy while all agents run. Each change has patience of its own,
// since all agents compile it.
func (d *demo) changeEngines(ctx context.Context) (string, error) {
	policy := func(n int) []byte {
		return fmt.Appendf(nil, "package acme.policy\n\ndecision := {\"allow\": input.path != \"/admin\", \"edition\": %d}\n", n)
	}
	changes := []engineChange{{"policy", script.EngineRego, policy(1), `"edition":1`}, {"policy", script.EngineRego, policy(2), `"edition":2`}}
	if d.modules.language != "" {
		changes = append([]engineChange{
			{"module", script.EngineWasm, d.modules.hello, `x-hello`}, {"module", script.EngineWasm, d.modules.route, `"upstream":"web"`},
		}, changes...)
	}
	var took []string // of the second version of each
	for i, c := range changes {
		started := time.Now()
		if err := d.changeEngine(ctx, c); err != nil {
			return "", err
		}
		if i%2 == 1 {
			took = append(took, c.engine+" "+Milliseconds(time.Since(started)))
		}
	}
	return "sent → all agents answer so: " + strings.Join(took, ", "), nil
}

func (d *demo) changeEngine(ctx context.Context, c engineChange) error {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	settings := &script.Settings{}
	settings.Limits.Timeout = time.Second
	if c.engine == script.EngineWasm {
		settings.Config = []byte(`{"default":"web"}`)
		settings.Runtime.Wasm.Reuse, settings.Limits.Instructions = true, 5_000_000 // which one in Go needs
	}
	ref := script.Name{Tenant: name.Tenant, Script: c.script}
	if _, err := d.registry.Publish(ctx, registryclient.PublishRequest{
		Name: ref, Engine: c.engine, Source: c.source, Settings: settings, Write: registryclient.Write{Author: "demo"},
	}); err != nil {
		return fmt.Errorf("publish the %s: %w", c.script, err)
	}
	return d.eachHas(ctx, ref.String(), `{"path":"/admin","remote_addr":"10.0.0.1"}`, c.has)
}

// eachHas waits until every agent's answer has the text.
func (d *demo) eachHas(ctx context.Context, ref, arg, text string) error {
	var all errgroup.Group
	for _, a := range d.agents {
		all.Go(func() error {
			return poll(ctx, func() error {
				got, err := a.node.resp(ctx, ref, arg)
				if err == nil && !strings.Contains(got, text) {
					err = fmt.Errorf("%s answers %s, which lacks %s", a.node.name, got, text)
				}
				return err
			})
		})
	}
	return all.Wait()
}

// whatChanges names the step.
func (m modules) whatChanges() string {
	if m.language == "" {
		return "change a Rego policy"
	}
	return fmt.Sprintf("change a module in %s and a Rego policy", m.language)
}
