// Package demo shows the whole path of a change, unattended, and fails if any
// step of it does not hold. Its agents are processes of their own, so that one
// can really be killed.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of a demonstration.
type Config struct {
	// Agents is how many there are; 3 when 0.
	Agents int
	// AgentCommand starts agentd: a program and its first arguments.
	AgentCommand []string
	// Modules is the folder that sdk/build.sh builds WebAssembly modules into: sdk/out.
	Modules string
	// Patience is how long a step may take before it has failed; 10 seconds when 0.
	Patience time.Duration
	Out      io.Writer
}

const (
	defaultPatience = 10 * time.Second
	// startPatience bounds the start of an agent, and the end of everything.
	startPatience = time.Minute
)

var name = script.Name{Tenant: "acme", Script: "greet"}

// source returns the n-th edition of the script.
func source(n int) []byte {
	return fmt.Appendf(nil, "function handle(who)\n  return \"hello \" .. who .. \", this is edition %d\"\nend\n", n)
}

func answer(n int) string { return fmt.Sprintf("%q", fmt.Sprintf("hello ann, this is edition %d", n)) }

const argument = `"ann"`

// demo is one run.
type demo struct {
	table    table
	patience time.Duration
	stack    *local.Stack
	registry *registryclient.Client
	agents   []*agent
	spans    *spans
	modules  modules
	edition  int // that is the latest
}

// Run shows the demonstration on cfg.Out. An error means that a step failed; it
// was printed already.
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg.Agents == 0 {
		cfg.Agents = 3
	}
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	modules, note, err := findModules(cfg.Modules)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "scriptorium-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	spans, err := collectSpans(ctx)
	if err != nil {
		return err
	}
	defer spans.close()
	started := time.Now()
	stack, err := local.Start(ctx, dir, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	d := &demo{table: table{out: cfg.Out}, patience: cfg.Patience, stack: stack, spans: spans, modules: modules}
	defer func() { err = errors.Join(err, d.close()) }()
	if d.registry, err = registryclient.Dial(stack.RegistryTarget()); err != nil {
		return err
	}
	for i := range cfg.Agents {
		a, err := newAgent(cfg.AgentCommand, fmt.Sprintf("agent-%d", i+1), stack.AgentDir(i+1), stack)
		if err != nil {
			return err
		}
		d.agents = append(d.agents, a)
		if err := a.start(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(cfg.Out, "etcd, NATS and a registry in this process, %d agents in processes of their own (up in %s)\n%s\n",
		cfg.Agents, Milliseconds(time.Since(started)), note)
	if err := d.play(ctx); err != nil {
		return err
	}
	fmt.Fprintf(cfg.Out, "\nall %d steps held, in %s\n", d.table.step, Milliseconds(time.Since(started)))
	return nil
}

func (d *demo) close() error {
	var errs []error
	for _, a := range d.agents {
		errs = append(errs, a.stop())
	}
	if d.registry != nil {
		errs = append(errs, d.registry.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	return errors.Join(append(errs, d.stack.Stop(ctx))...)
}

// play runs the steps until one fails.
func (d *demo) play(ctx context.Context) error {
	last := d.agents[len(d.agents)-1]
	steps := []struct {
		what string
		do   func(context.Context) (proof string, err error)
	}{
		{"publish a script", d.publishFirst},
		{"call it over RESP, HTTP and gRPC", d.callEach},
		{fmt.Sprintf("change it %d times", changes), d.changeMany},
		{"hold it at version 1", d.pin},
		{"release it", d.release},
		{"publish a script that does not compile", d.publishBroken},
		{"change it in one trace", d.traceChange},
		{"ask the fleet for the script's calls", d.countCalls},
		{d.modules.whatChanges(), func(context.Context) (string, error) { return d.changeEngines(ctx) }},
		{"try a version in the shadow of calls", d.shadow},
		{"try a version on one agent, kill -9 that", d.loseCanary},
		{fmt.Sprintf("kill -9 %s, stop registry and NATS", last.node.name), d.breakDown},
		{fmt.Sprintf("start %s again, on its own", last.node.name), d.serveFromDisk},
		{"start registry and NATS, publish a change", d.recover},
	}
	d.table.head()
	for _, step := range steps {
		stepCtx, cancel := context.WithTimeout(ctx, d.patience)
		started := time.Now()
		proof, err := step.do(stepCtx)
		cancel()
		if err != nil {
			d.table.failed(step.what, err)
			return fmt.Errorf("step %d failed", d.table.step)
		}
		d.table.row(step.what, proof, time.Since(started))
	}
	return nil
}

// publish publishes an edition and returns when each agent answered with it, and
// how long that took from before the request was sent.
func (d *demo) publish(ctx context.Context, edition int) (time.Duration, error) {
	started := time.Now()
	_, err := d.registry.Publish(ctx, registryclient.PublishRequest{
		Name:   name,
		Source: source(edition),
		// Ten versions are retained by default; version 1 is wanted again later.
		Settings: &script.Settings{HistoryLimit: 2 + changes},
		Write:    registryclient.Write{Author: "demo"},
	})
	if err != nil {
		return 0, err
	}
	d.edition = edition
	err = d.eachAnswers(ctx, answer(edition))
	return time.Since(started), err
}

// eachAnswers waits until every agent answers as wanted.
func (d *demo) eachAnswers(ctx context.Context, want string) error {
	errs := make([]error, len(d.agents))
	var wg sync.WaitGroup
	for i, a := range d.agents {
		wg.Go(func() { errs[i] = a.node.answers(ctx, name.String(), want) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *demo) publishFirst(ctx context.Context) (string, error) {
	if _, err := d.publish(ctx, 1); err != nil {
		return "", err
	}
	status, err := d.converged(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s v%d active on %d/%d agents", name, status.Release.Active.Number, status.Active, status.Desired), nil
}

// converged waits until the registry says that all agents run the script's release.
func (d *demo) converged(ctx context.Context) (registryclient.ScriptStatus, error) {
	var last registryclient.ScriptStatus
	for fleet, err := range d.registry.WatchStatus(ctx, name) {
		if err != nil {
			return last, fmt.Errorf("not converged (%d/%d agents): %w", last.Active, last.Desired, err)
		}
		for _, s := range fleet.Scripts {
			if last = s; s.Converged && s.Active == len(d.agents) {
				return s, nil
			}
		}
	}
	return last, fmt.Errorf("not converged: %d/%d agents", last.Active, last.Desired)
}

func (d *demo) callEach(ctx context.Context) (string, error) {
	for _, a := range d.agents {
		resp, err := a.node.resp(ctx, name.String(), argument)
		if err != nil {
			return "", err
		}
		post, err := a.node.post(ctx, name.String(), argument)
		if err != nil {
			return "", err
		}
		call, err := a.node.call(ctx, name.String(), argument)
		if err != nil {
			return "", err
		}
		if want := answer(1); resp != want || post != want || call != want {
			return "", fmt.Errorf("%s answers %s over RESP, %s over HTTP, %s over gRPC", a.node.name, resp, post, call)
		}
	}
	return fmt.Sprintf("%s, nine times over", answer(1)), nil
}

// changes is how many changes are timed, and pace the time between them.
const (
	changes = 20
	pace    = 100 * time.Millisecond
)

func (d *demo) changeMany(ctx context.Context) (string, error) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	var times []time.Duration
	for i := range changes {
		took, err := d.publish(ctx, 2+i)
		if err != nil {
			return "", fmt.Errorf("change %d: %w", i+1, err)
		}
		times = append(times, took)
		<-ticker.C
	}
	slices.Sort(times)
	return fmt.Sprintf("sent → all agents answer so: median %s, slowest %s",
		Milliseconds(times[changes/2]), Milliseconds(times[changes-1])), nil
}

func (d *demo) pin(ctx context.Context) (string, error) {
	if _, _, err := d.registry.Pin(ctx, name, 1, registryclient.Write{Author: "demo"}); err != nil {
		return "", err
	}
	if err := d.eachAnswers(ctx, answer(1)); err != nil {
		return "", err
	}
	return "every agent answers with edition 1 again", nil
}

func (d *demo) release(ctx context.Context) (string, error) {
	if _, _, err := d.registry.LiftHold(ctx, name, registryclient.Write{Author: "demo"}); err != nil {
		return "", err
	}
	if err := d.eachAnswers(ctx, answer(d.edition)); err != nil {
		return "", err
	}
	return fmt.Sprintf("every agent answers with edition %d", d.edition), nil
}

func (d *demo) publishBroken(ctx context.Context) (string, error) {
	_, err := d.registry.Publish(ctx, registryclient.PublishRequest{
		Name: name, Source: []byte("function handle(who)\n  return \"hello\" ..\nend\n"), Write: registryclient.Write{Author: "demo"},
	})
	refused := script.AsError(err)
	if refused == nil || refused.Kind != script.Script || refused.Line == 0 {
		return "", fmt.Errorf("it was not refused with its line, but: %w", err)
	}
	if err := d.eachAnswers(ctx, answer(d.edition)); err != nil {
		return "", err
	}
	return fmt.Sprintf("refused: line %d: %s", refused.Line, refused.Message), nil
}

func (d *demo) breakDown(ctx context.Context) (string, error) {
	last := d.agents[len(d.agents)-1]
	if err := last.kill(); err != nil {
		return "", err
	}
	if err := d.stack.StopRegistry(ctx); err != nil {
		return "", err
	}
	d.stack.StopNATS()
	for _, a := range d.agents[:len(d.agents)-1] {
		if err := a.node.answers(ctx, name.String(), answer(d.edition)); err != nil {
			return "", err
		}
	}
	return "the other agents keep answering", nil
}

func (d *demo) serveFromDisk(ctx context.Context) (string, error) {
	last := d.agents[len(d.agents)-1]
	if err := last.start(ctx); err != nil {
		return "", err
	}
	if err := last.node.answers(ctx, name.String(), answer(d.edition)); err != nil {
		return "", err
	}
	return fmt.Sprintf("it answers with edition %d, from its disk alone", d.edition), nil
}

func (d *demo) recover(ctx context.Context) (string, error) {
	if err := d.stack.StartNATS(ctx); err != nil {
		return "", err
	}
	if err := d.stack.StartRegistry(ctx); err != nil {
		return "", err
	}
	if _, err := d.publish(ctx, d.edition+1); err != nil {
		return "", err
	}
	status, err := d.converged(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("v%d converged on %d/%d agents", status.Release.Active.Number, status.Active, status.Desired), nil
}
