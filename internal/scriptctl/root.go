// Package scriptctl is the command of the same name: a person's, or a pipeline's,
// way to a registry. Each command lives in the file of its name; they share the
// streams, the flags and the registry's client of one app.
package scriptctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/script"
)

const defaultRegistry = "unix:.scriptorium/registry.sock"

// The groups of commands in the help.
const (
	groupWrite  = "write"
	groupChange = "change"
	groupRead   = "read"
	groupRun    = "run"
)

const rootLong = `scriptctl publishes scripts to a Scriptorium registry, says what became of them
on the fleet, and calls them on an agent.

A script is named tenant/name, and one version of it tenant/name@7.

A flag wins over the environment, that over the current context ("scriptctl config"),
and that over the default. A context that --context names wins over the environment.

Environment:
  SCRIPTORIUM_REGISTRY  the registry, when --registry is not given
  SCRIPTORIUM_CONTEXT   the context, when --context is not given
  SCRIPTCTL_CONFIG      the file with the contexts, when --config is not given
  SCRIPTORIUM_AGENT     the agent that "call" asks, when none is given
  SCRIPTORIUM_AUTHOR    who changes things, when --author is not given
  SCRIPTORIUM_TOKEN     a bearer token for the registry, when --token-file is not
                        given; SCRIPTORIUM_CA, _CERT, _KEY, _TOKEN_FILE and
                        _INSECURE_PLAINTEXT stand for the flags of those names
  TRACEPARENT           the W3C trace that changes and calls are part of
  NO_COLOR              no colours when set

With -o json, or yaml, the result is on standard output. Standard error then has one
object for each error, and the first error decides the exit code:
  {"error": {"kind", "field", "message", "file", "line", "column", "source"},
   "exitCode"}
Fields that are not known are left out. Warnings are {"warning": {"message"}}, and
notices {"notice": {"message"}}.

Exit codes:
  0  done
  1  anything else went wrong; diff -f, apply --dry-run of a project: there is a change
  2  usage: a flag, an argument or a file is wrong; nothing was sent
  3  no such script or version
  4  refused: it does not compile, breaks a rule, conflicts, or is not allowed
  5  the registry or the agent cannot be reached
  6  the call failed: SCRIPT, TIMEOUT, LIMIT, DISABLED or OVERLOADED
  7  --wait: not every agent runs it, or the candidate was given up
  8  the registry cannot read a record: see "scriptctl doctor"
  9  what runs did not change: somebody holds the script, or froze the registry
  10 replay: more decisions differ than --max-diff allows, none was compared, or the
     log is damaged
  11 test, bench: a test failed, or there is none
  12 lint: a finding is an error
  13 krm --health: a resource is Degraded`

// app is one run of scriptctl.
type app struct {
	Streams
	registry string
	author   string
	output   string
	caller   security.Caller
	plain    bool // --insecure-plaintext
	kube     kubeFlags
	config   string // --config

	contextName string                 // --context
	byKubectl   bool                   // as kubectl scriptorium
	resolved    *settings              // see settings
	client      *registryclient.Client // see connect
	started     bool                   // the arguments were understood
}

// Run runs scriptctl with the arguments that follow its name, and returns its
// exit code. When ctx ends, it stops what it does.
func Run(ctx context.Context, streams Streams, args []string) int {
	return runAs(ctx, &app{}, streams, args)
}

func runAs(ctx context.Context, a *app, streams Streams, args []string) int {
	out := &output{Writer: streams.Out}
	streams.Out = out
	a.Streams = streams
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(withTrace(ctx))
	if a.client != nil {
		_ = a.client.Close() // nothing is in flight
	}
	if err == nil {
		err = out.err
	}
	return a.exit(err, args)
}

// RunProgram is Run by the name that the program was started with: as kubectl-scriptorium it is
// a plugin of kubectl.
func RunProgram(ctx context.Context, streams Streams, program string, args []string) int {
	return runAs(ctx, &app{byKubectl: filepath.Base(program) == pluginName}, streams, args)
}

// Command returns the command tree, for those that describe it; Run runs it.
func Command() *cobra.Command { return (&app{Streams: Standard()}).root() }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "scriptctl",
		Short:         "Publish, roll back and call scripts on a fleet",
		Long:          rootLong,
		Version:       thisVersion().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	flags := root.PersistentFlags()
	flags.StringVar(&a.registry, "registry", "", "the registry: unix:PATH or host:port (default $SCRIPTORIUM_REGISTRY, else "+defaultRegistry+")")
	flags.StringVar(&a.author, "author", "", "who makes the change (default $SCRIPTORIUM_AUTHOR, else your user name)")
	flags.StringVarP(&a.output, "output", "o", formatTable, "how to print: table, json or yaml; test and lint have more formats")
	a.addConnectionFlags(root)
	must(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))

	root.AddGroup(&cobra.Group{ID: groupWrite, Title: "Write scripts:"}, &cobra.Group{ID: groupChange, Title: "Change scripts:"}, &cobra.Group{ID: groupRead, Title: "See and call scripts:"},
		&cobra.Group{ID: groupRun, Title: "Run a registry:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			a.begin(c)
			root.AddCommand(c)
		}
	}
	add(groupWrite, a.initCommand(), a.testCommand(), a.devCommand(), a.runCommand(), a.benchCommand(), a.lintCommand(), a.explainRuleCommand(), a.krmCommand(), a.schemaCommand())
	add(groupChange, a.publishCommand(), a.applyCommand(), a.changeSetCommand(), a.signCommand(), a.pinCommand(), a.rollbackCommand(), a.holdCommand(), a.releaseCommand(), a.rolloutCommand(),
		a.enableCommand(true), a.enableCommand(false), a.ownerCommand(), a.deleteCommand(), a.kvCommand())
	add(groupRead, a.listCommand(), a.getCommand(), a.historyCommand(), a.diffCommand(), a.statusCommand(), a.topCommand(), a.eventsCommand(),
		a.agentsCommand(), a.callCommand(), a.logsCommand(), a.replayCommand(), a.profileCommand())
	add(groupRun, a.freezeCommand(), a.thawCommand(), a.tenantCommand(), a.usageCommand(), a.auditCommand(), a.exportCommand(), a.importCommand(), a.doctorCommand(), a.checkCommand(), a.keysCommand(), a.tokenCommand())
	add("", a.versionCommand())
	if a.byKubectl {
		asPlugin(root)
	} else {
		add("", a.configCommand())
	}
	return root
}

// begin makes c and its own commands check what all commands share before they run,
// and note that they run: an error before that is one of usage.
func (a *app) begin(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.begin(sub)
	}
	run := c.RunE
	if run == nil {
		c.RunE = showCommands
		return
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkFormat(cmd, a.output); err != nil {
			return err
		}
		a.started = true
		return run(cmd, args)
	}
}

// showCommands is the end of a command that has others, and none of them was named.
func showCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	what := fmt.Sprintf("%.80q is not a command of %s", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2 // as cobra has it for commands of the root
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return usage(errors.New(what + didYouMean(like)))
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return usage(fmt.Errorf("%s: want %s", what, strings.Join(names, ", ")))
}

// connect returns the registry's client.
func (a *app) connect() (*registryclient.Client, error) {
	if a.client != nil {
		return a.client, nil
	}
	address, options, err := a.connection()
	if err != nil {
		return nil, err
	}
	client, err := registryclient.Dial(address, options...)
	if err != nil {
		return nil, usage(fmt.Errorf("%w (%s)", err, a.registryOrigin()))
	}
	a.client = client
	return client, nil
}

// registryTarget is the registry's address; that of the default if the configuration is wrong, which connect says.
func (a *app) registryTarget() string {
	s, err := a.settings()
	if err != nil {
		return defaultRegistry
	}
	return cmp.Or(s.registry.value, defaultRegistry)
}

// registryOrigin says where registryTarget is from.
func (a *app) registryOrigin() string {
	if s, err := a.settings(); err == nil && s.registry.from != "" {
		return "the address is from " + s.registry.from
	}
	return `this is the address of "make run", the default: for another registry set --registry or SCRIPTORIUM_REGISTRY`
}

// way says which registry it is, and where that is from.
func (a *app) way() string {
	if s, err := a.settings(); err == nil && s.kube != nil {
		return "through a Kubernetes cluster, from " + s.kube.from
	}
	return a.registryTarget() + "; " + a.registryOrigin()
}

// write returns what a change says of itself.
func (a *app) write(note string) (registryclient.Write, error) {
	author := cmp.Or(a.author, os.Getenv("SCRIPTORIUM_AUTHOR"))
	if author == "" {
		u, err := user.Current()
		if err != nil {
			return registryclient.Write{}, usage(script.Errorf(script.Invalid, "", "--author is needed: your user name is not known (%v)", err))
		}
		author = u.Username
	}
	for _, flag := range []struct{ name, text string }{{"--author", author}, {"--note", note}} {
		if !utf8.ValidString(flag.text) { // which gRPC would refuse, without a name
			return registryclient.Write{}, usage(script.Errorf(script.Invalid, flag.name, "is not valid UTF-8: %.80q", flag.text))
		}
	}
	return registryclient.Write{Author: author, Note: note}, nil
}

// must is for errors that only a mistake in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
