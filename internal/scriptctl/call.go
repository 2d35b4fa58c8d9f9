package scriptctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/script"
)

const callLong = `Call runs a script once on an agent and prints what it returned, each value as
JSON on a line of its own. Every argument is a JSON value; put -- before them if
one starts with a minus.

The agent is the one at --agent-socket, else at $SCRIPTORIUM_AGENT, else agent-1
beside the registry. --agent names others there, and may be repeated: each is
called in turn. With -o json an error names the socket as "agent".`

const callExample = `  scriptctl call acme/route '{"path":"/api/cart"}'
  scriptctl call acme/greet@1 '"you"' --agent agent-1 --agent agent-2`

type callOptions struct {
	socket  string
	agents  []string
	timeout time.Duration
	key     string
}

type callView struct {
	Script           string            `json:"script"`
	Agent            string            `json:"agent"`
	Version          uint64            `json:"version"`
	Digest           script.Digest     `json:"digest"`
	StalenessSeconds *float64          `json:"stalenessSeconds"` // null: the agent never was current since it started
	Results          []json.RawMessage `json:"results"`
}

func (a *app) callCommand() *cobra.Command {
	var o callOptions
	cmd := &cobra.Command{
		Use:               "call TENANT/NAME[@VERSION] [JSON-ARG…]",
		Short:             "Call a script on an agent",
		Long:              callLong,
		Example:           callExample,
		Args:              wantArgs(1, anyNumber, "a script", `tenant/name [JSON-ARG…]`),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), args[0], args[1:], &o)
		},
	}
	cmd.Flags().StringVar(&o.socket, "agent-socket", "", "the agent's grpc.sock")
	cmd.Flags().StringArrayVar(&o.agents, "agent", nil, "an agent beside the registry, such as agent-2; may be repeated")
	cmd.Flags().StringVar(&o.key, "key", "", "the key of the call, for rollouts by key and personal versions (scriptctl dev)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Second, "how long to wait for the answer")
	cmd.MarkFlagsMutuallyExclusive("agent-socket", "agent")
	return cmd
}

func (a *app) call(ctx context.Context, name string, args []string, o *callOptions) error {
	ref, err := script.ParseRef(a.withTenant(name))
	if err != nil {
		return usage(err)
	}
	if err := checkJSON(args); err != nil {
		return usage(err)
	}
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = json.RawMessage(arg)
	}
	sockets, err := a.agentSockets(o)
	if err != nil {
		return usage(err)
	}
	var views []callView
	var errs []error
	for _, socket := range sockets {
		view, err := a.callAgent(ctx, socket, ref, values, o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		views = append(views, view)
	}
	if len(views) > 0 {
		if err := a.printCalls(views); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// checkJSON returns an error if an argument of a script is not JSON.
func checkJSON(args []string) error {
	for i, arg := range args {
		if !json.Valid([]byte(arg)) {
			return script.Errorf(script.Invalid, "", `argument %d, %.80q, is not JSON: text is written '"text"', an object '{"path":"/"}'`, i+1, arg)
		}
	}
	return nil
}

func (a *app) printCalls(views []callView) error {
	if len(views) == 1 && a.output != formatTable {
		return a.print(views[0], nil)
	}
	return a.print(views, func(w io.Writer) {
		for _, view := range views {
			if len(views) > 1 {
				fmt.Fprintf(w, "# %s\n", view.Agent)
			}
			writeResults(w, view.Results)
		}
	})
}

func writeResults(w io.Writer, results []json.RawMessage) {
	for _, result := range results {
		fmt.Fprintln(w, string(result))
	}
}

// agentSockets returns the sockets of the agents to call.
func (a *app) agentSockets(o *callOptions) ([]string, error) {
	if socket := cmp.Or(o.socket, os.Getenv("SCRIPTORIUM_AGENT")); socket != "" && len(o.agents) == 0 {
		return []string{socket}, nil
	}
	path, ok := strings.CutPrefix(a.registryTarget(), "unix:")
	if !ok {
		path = strings.TrimPrefix(defaultRegistry, "unix:")
		if len(o.agents) > 0 {
			return nil, script.Errorf(script.Invalid, "", "--agent names an agent beside the registry's socket, and %s is none: use --agent-socket", a.registryTarget())
		}
	}
	agents := o.agents
	if len(agents) == 0 {
		agents = []string{"agent-1"}
	}
	sockets := make([]string, 0, len(agents))
	for _, agent := range agents {
		if err := script.ValidateLabel("--agent", agent); err != nil {
			return nil, err
		}
		sockets = append(sockets, filepath.Join(filepath.Dir(path), agent, "grpc.sock"))
	}
	return sockets, nil
}

func (a *app) callAgent(ctx context.Context, socket string, ref script.Ref, args []any, o *callOptions) (callView, error) {
	client, err := agentclient.New(socket, agentclient.WithConnections(1))
	if err != nil {
		return callView{}, usage(err)
	}
	defer client.Close() //nolint:errcheck // nothing is in flight
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	result, err := client.Call(agentclient.ContextWithKey(ctx, o.key), ref.String(), args...)
	if err != nil {
		what := a.called(ctx, client, ref, o.key, err)
		source := a.sourceOf(ctx, what.ref, what.line)
		compile.NameStack(err, source)
		return callView{}, &agentError{agent: socket, source: source, err: a.callError(socket, what, o, err)}
	}
	view := callView{Script: ref.Name.String(), Agent: socket, Version: result.Version, Digest: result.Digest, Results: result.Values}
	if view.Results == nil {
		view.Results = []json.RawMessage{}
	}
	if result.Staleness >= 0 {
		view.StalenessSeconds = new(result.Staleness.Seconds())
	}
	return view, nil
}

// calling is a call as an error names it.
type calling struct {
	ref  script.Ref
	line int    // of the source in which the call failed; 0 if it is not known
	what string // the script, and the version that failed if the agent says it
}

// called asks the agent which version the call that failed has run, and whether it is pinned:
// people take the error for one of the version that they published last.
func (a *app) called(ctx context.Context, client *agentclient.Client, ref script.Ref, key string, err error) calling {
	c := calling{ref: ref, what: ref.String()}
	var line int
	switch script.KindOf(err) {
	case script.Script, script.Timeout, script.Limit:
		line = script.AsError(err).Line
	default:
		return c
	}
	list, err := client.List(ctx, agentclient.ListOptions{Tenant: ref.Name.Tenant})
	if key != "" && ref.Version == 0 {
		if personal, ok := a.personalWith(ctx, list, ref.Name, key); ok {
			return calling{ref: personal, line: line, what: fmt.Sprintf("%s, as which %s ran", personal, ref)}
		}
		return c // a rollout may have run another version
	}
	c.line = line
	i := slices.IndexFunc(list, func(s agentclient.Script) bool { return s.Name == ref.Name })
	if err != nil || i < 0 || ref.Version != 0 {
		return c
	}
	c.ref.Version = list[i].Active.Number
	c.what = fmt.Sprintf("%s@%d", ref.Name, c.ref.Version)
	if list[i].Pinned {
		c.what += fmt.Sprintf(", to which the script is pinned (scriptctl get %s says whether somebody holds it)", ref.Name)
	}
	return c
}

// personalWith returns the personal version of a script that calls with the key run, among the scripts of an agent.
func (a *app) personalWith(ctx context.Context, list []agentclient.Script, of script.Name, key string) (script.Ref, bool) {
	client, err := a.connect()
	if err != nil {
		return script.Ref{}, false
	}
	for i := range list {
		if name := list[i].Name; strings.HasPrefix(name.Script, script.PersonalPrefix(of).Script) {
			r, err := client.Get(ctx, name)
			if err != nil && script.KindOf(err) != script.NotFound {
				return script.Ref{}, false
			}
			p := r.Settings.Personal
			if err == nil && r.Enabled && p != nil && p.Of == of.Script && p.Key == key && !p.Expired(time.Now()) && list[i].Active.Number != 0 {
				return script.Ref{Name: name, Version: list[i].Active.Number}, true
			}
		}
	}
	return script.Ref{}, false
}

// agentOrigin says where a socket of agentSockets is from.
func (a *app) agentOrigin(o *callOptions) string {
	const other = "for another agent set --agent-socket or SCRIPTORIUM_AGENT"
	switch {
	case o.socket != "":
		return "the socket is from --agent-socket"
	case len(o.agents) > 0:
		return "--agent names a folder beside the registry's socket"
	case os.Getenv("SCRIPTORIUM_AGENT") != "":
		return "the socket is from SCRIPTORIUM_AGENT"
	case a.registryTarget() == defaultRegistry:
		return `this is the default, of "make run": ` + other
	}
	return "this is the default: " + other
}

// agentError is an error of a call, with the agent's socket.
type agentError struct {
	agent  string
	source []byte // of the script that failed; nil if it is not known
	err    error
}

func (e *agentError) Error() string { return e.err.Error() }
func (e *agentError) Unwrap() error { return e.err }

// callError says whose fault it is, and gives it an exit code.
func (a *app) callError(socket string, c calling, o *callOptions, err error) error {
	kind := script.KindOf(err)
	switch kind {
	case script.Unavailable:
		return &exitError{code: exitUnreachable, err: fmt.Errorf("cannot reach the agent at %s (%w): check that agentd runs there; %s", socket, err, a.agentOrigin(o))}
	case script.Script, script.Timeout, script.Limit, script.Disabled, script.Overloaded:
		return &exitError{code: exitCallFailed, err: fmt.Errorf("%s: %s: %w", c.what, kind, err)}
	case script.NotFound:
		if strings.Contains(err.Error(), c.ref.Name.String()) {
			return err
		}
	}
	return fmt.Errorf("%s: %s: %w", c.what, kind, err)
}
