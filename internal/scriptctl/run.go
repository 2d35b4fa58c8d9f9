package scriptctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
)

const runLong = `Run calls a script once on this machine and prints what it returned, each value as JSON
on a line of its own. It uses the engine of agents and the script's limits, and needs no
registry and no agent. Lines that the script logs are on standard error.

FILE is a manifest. It can also be a .lua file, which runs with default settings. Its
entrypoint is "handle", or the whole file if that defines no such function. Every argument
is a JSON value; put -- before them if one starts with a minus.

kv has what --kv gives it. Counters are 0 and rate limits are full. The time stands still
during the call.

With --on-agent, the script runs on an agent, in the sandbox of its tenant and with the
tenant's values and libraries. It is not published: the registry does not store it, the
agent forgets it, and no gateway can call it. This takes the role publish.

With -i, run reads lines of Lua from standard input. Each line is one call under the
script's limits: the script's source runs first, and then the line. So the line sees the
script's functions and its local variables. Of an expression, run prints the values. A
line that is incomplete continues on the next one, and an empty line gives it up.

Global variables that JSON can say stay for the next line, as copies, unless the source
sets them again. Functions and local variables of a line are gone. A line that fails
changes no variable. No line runs twice.

A script without entrypoint is the function chunk: set the request's members as global
variables, and call chunk(). ":reset" forgets all variables. ":quit" or Ctrl-D ends run.
If standard input is no terminal, run stops at the first line that fails.

With -o json, a line that the script logs is {"log": {"level", "message"}} on standard
error.`

const runExample = `  scriptctl run route.yaml '{"path":"/api/cart"}'
  scriptctl run route.yaml '{}' --kv maintenance=on --config '{"default":"slow"}'
  scriptctl run route.lua '{}' --now 2026-01-31T12:00:00Z --seed 7
  scriptctl run route.yaml '{"path":"/api/cart"}' --on-agent=edge-7
  scriptctl run route.yaml -i`

type runOptions struct {
	name        string
	config      string
	kv          []string
	now         string
	seed        uint64
	seeded      bool // --seed was given
	interactive bool
	onAgent     string
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use: "run FILE [JSON-ARG…]", Short: "Call a script on this machine, once or line by line", Long: runLong, Example: runExample,
		Args: wantArgs(1, anyNumber, "the file of a script", "FILE [JSON-ARG…]"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return scriptExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.seeded = cmd.Flags().Changed("seed")
			return a.run(cmd.Context(), args[0], args[1:], &o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "the script, as `TENANT/NAME`, if the file has several")
	flags.StringVar(&o.config, "config", "", "what the script sees as config, in place of the manifest's: a JSON `OBJECT`, or @FILE")
	flags.StringArrayVar(&o.kv, "kv", nil, "a value that the script reads with kv, as `KEY=TEXT`, or KEY=@FILE for the content of a file; may be repeated")
	flags.StringVar(&o.now, "now", "", "the `TIME` that the script sees, such as 2026-01-31T12:00:00Z (default the clock's)")
	flags.Uint64Var(&o.seed, "seed", 0, "where random numbers begin (default anywhere)")
	flags.StringVar(&o.onAgent, "on-agent", "", onAgentUsage)
	flags.Lookup("on-agent").NoOptDefVal = anyAgent
	flags.BoolVarP(&o.interactive, "interactive", "i", false, "read lines of Lua, and run each")
	return cmd
}

// scriptExtensions are of files with one script or more.
var scriptExtensions = append([]string{"lua"}, manifestExtensions...)

// runView is what came of a call as JSON; of a line it has the results alone.
type runView struct {
	Script         string            `json:"script"`
	Results        []json.RawMessage `json:"results"`
	Seconds        float64           `json:"seconds,omitempty"`
	Instructions   uint64            `json:"instructions,omitempty"`
	AllocatedBytes uint64            `json:"allocatedBytes,omitempty"`
}

func (a *app) run(ctx context.Context, file string, args []string, o *runOptions) error {
	if o.interactive && len(args) > 0 {
		return usage(script.Errorf(script.Invalid, "--interactive", "takes no arguments of the script: call it in a line, such as handle({})"))
	}
	if o.interactive && file == "-" {
		return usage(script.Errorf(script.Invalid, "--interactive", "reads lines from standard input: name a file of the script"))
	}
	if err := checkJSON(args); err != nil {
		return usage(err)
	}
	if o.onAgent != "" {
		if err := o.checkOnAgent(file); err != nil {
			return usage(err)
		}
	}
	m, err := a.scriptIn(file, o.name)
	if err != nil {
		return usage(err)
	}
	next, err := a.calls(m, o)
	if err != nil {
		return usage(err)
	}
	if o.onAgent != "" {
		return a.runOnAgent(ctx, m, args, next().Config, o.onAgent)
	}
	if o.interactive && m.Engine != script.EngineLua {
		return usage(script.Errorf(script.Invalid, "--interactive", "evaluates lines of Lua, and the runtime of %s is %s: call it with arguments", file, m.Engine))
	}
	if err := new(offline.Libraries).Resolve(m); err != nil {
		return &exitError{code: exitRefused, err: err}
	}
	program, err := offline.Compile(engines.Offline(), &script.Edition{
		Version: script.Version{Engine: m.Engine, Entrypoint: m.Entrypoint}, Spec: m.Settings.Spec, Source: m.Source,
	})
	if err != nil {
		return &exitError{code: exitRefused, err: m.Locate(err)}
	}
	if o.interactive {
		return a.interact(ctx, m, next)
	}
	var used engine.Used
	call := next()
	call.Used = &used
	for _, arg := range args {
		call.Args = append(call.Args, []byte(arg))
	}
	var returned engine.Result
	began := time.Now()
	if err := program.Run(ctx, &call, &returned); err != nil {
		return runError(m.Locate(err))
	}
	view := runView{
		Script: m.Name.String(), Results: []json.RawMessage{}, Seconds: time.Since(began).Seconds(),
		Instructions: used.Instructions, AllocatedBytes: used.Allocated,
	}
	for i := range returned.Len() {
		view.Results = append(view.Results, returned.Value(i))
	}
	return a.print(view, func(w io.Writer) { writeResults(w, view.Results) })
}

// runError gives the error of a call on this machine its kind and an exit code.
func runError(err error) error {
	kind := script.KindOf(err)
	switch kind {
	case script.Script, script.Timeout, script.Limit:
		return &exitError{code: exitCallFailed, err: fmt.Errorf("%s: %w", kind, err)}
	case script.Invalid: // an argument
		return usage(err)
	}
	return err
}

// scriptIn returns the script in a manifest or a .lua file; name says which if there are several.
func (a *app) scriptIn(file, name string) (*manifest.Manifest, error) {
	if filepath.Ext(file) == ".lua" {
		all, err := a.loadLinted(file)
		if err != nil {
			return nil, err
		}
		if name != "" {
			return nil, script.Errorf(script.Invalid, "--name", "only goes with a manifest, and %s is a source", file)
		}
		called := script.Name{Tenant: "local", Script: strings.TrimSuffix(filepath.Base(file), ".lua")}
		if called.Validate() != nil {
			called.Script = "script"
		}
		all[0].Name = called
		return &all[0], nil
	}
	if manifest.IsTestFile(file) {
		return nil, script.Errorf(script.Invalid, "", "%s has tests: name the manifest, or use scriptctl test", file)
	}
	manifests, err := a.loadFile(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range manifests {
		m := &manifests[i]
		if name == m.Name.String() || name == "" && len(manifests) == 1 {
			return m, nil
		}
		names = append(names, m.Name.String())
	}
	switch {
	case len(names) == 0:
		return nil, script.Errorf(script.Invalid, "", "%s has no manifest", file)
	case name == "":
		return nil, script.Errorf(script.Invalid, "--name", "is missing: %s has several scripts, %s", file, strings.Join(names, ", "))
	}
	return nil, script.Errorf(script.Invalid, "--name", "%s has no script %.80q: it has %s", file, name, strings.Join(names, ", "))
}

// calls returns what makes a call as the flags want it.
func (a *app) calls(m *manifest.Manifest, o *runOptions) (func() offline.Call, error) {
	call := offline.Call{Name: m.Name, Once: true, Values: map[string][]byte{}, Log: func(level engine.Level, message string) {
		a.report(fmt.Sprintf("log %s: %s", level, message), map[string]testLogView{"log": {string(level), message}})
	}}
	if o.config != "" {
		config, err := textOrFile("--config", o.config)
		if err != nil {
			return nil, err
		}
		if call.Config = bytes.TrimSpace(config); !json.Valid(config) || call.Config[0] != '{' {
			return nil, script.Errorf(script.Invalid, "--config", `%.80q is not a JSON object, such as {"default":"slow"}`, config)
		}
	}
	for _, flag := range o.kv {
		key, text, ok := strings.Cut(flag, "=")
		if !ok || key == "" {
			return nil, script.Errorf(script.Invalid, "--kv", "%.80q is no value: want KEY=TEXT, or KEY=@FILE", flag)
		}
		content, err := textOrFile("--kv", text)
		if err != nil {
			return nil, err
		}
		call.Values[key] = content
	}
	now := time.Time{}
	if o.now != "" {
		var err error
		if now, err = time.Parse(time.RFC3339Nano, o.now); err != nil {
			return nil, script.Errorf(script.Invalid, "--now", "%.80q is no time: want one such as 2026-01-31T12:00:00Z", o.now)
		}
	}
	seed := o.seed
	return func() offline.Call {
		next := call
		if next.Now = now; o.now == "" {
			next.Now = time.Now()
		}
		if next.Seed = seed; !o.seeded {
			next.Seed = rand.Uint64()
		}
		seed++ // so that lines differ
		return next
	}, nil
}

// textOrFile returns the text of a flag, or the content of the file in @FILE.
func textOrFile(flag, text string) ([]byte, error) {
	path, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return []byte(text), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, script.Errorf(script.Invalid, flag, "%w", err)
	}
	content, err := readContent(f, path)
	return content, errors.Join(err, f.Close())
}
