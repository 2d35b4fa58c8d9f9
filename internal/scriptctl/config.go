package scriptctl

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/contexts"
	"github.com/scriptorium-dev/scriptorium/script"
)

const configLong = `Config manages contexts: named registries, and how to connect to each. They are in
~/.config/scriptorium/config.yaml, or in the file of --config or SCRIPTCTL_CONFIG.

A context names files with certificates, keys and tokens. It holds no secret.

Of each value, the flag wins over the environment, that over the current context, and
that over the default. A context that --context names wins over the environment. The
credentials of the current context go to no other registry than its own: with
--registry, name the context by --context to use them.`

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Manage contexts: named registries, and how to connect to each", Long: configLong}
	cmd.AddCommand(a.getContextsCommand(), a.currentContextCommand(), a.useContextCommand(), a.setContextCommand(), a.deleteContextCommand(), a.viewConfigCommand())
	return cmd
}

// contextView is a context, and whether it is the current one.
type contextView struct {
	Current bool `json:"current"`
	contexts.Context
}

func (a *app) getContextsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get-contexts", Short: "List the contexts", Long: "Get-contexts lists the contexts. The current one has a star.",
		Example: "  scriptctl config get-contexts", Args: wantArgs(0, 0, "no argument", ""),
		RunE: func(*cobra.Command, []string) error {
			file, _, err := a.loadConfig(true)
			if err != nil {
				return usage(err)
			}
			views := make([]contextView, 0, len(file.Contexts))
			rows := [][]string{{"CURRENT", "NAME", "REGISTRY", "CREDENTIALS", "TENANT"}}
			for _, c := range file.Contexts {
				views = append(views, contextView{Current: c.Name == file.Current, Context: c})
				star := ""
				if c.Name == file.Current {
					star = "*"
				}
				rows = append(rows, []string{star, c.Name, plain(whereOf(&c)), plain(credentialsOf(&c)), orDash(c.Tenant)})
			}
			return a.print(views, func(w io.Writer) {
				if len(views) == 0 {
					fmt.Fprintln(a.Err, "no contexts yet: scriptctl config set-context NAME --registry HOST:PORT")
					return
				}
				columns(w, rows)
			})
		},
	}
}

// whereOf says which registry a context is of.
func whereOf(c *contexts.Context) string {
	if c.Kube == nil {
		return orDash(c.Registry)
	}
	text := "kube"
	if c.Kube.Namespace != "" {
		text += " namespace " + c.Kube.Namespace
	}
	if c.Kube.Context != "" {
		text += " context " + c.Kube.Context
	}
	return text
}

// credentialsOf says how a context identifies the caller.
func credentialsOf(c *contexts.Context) string {
	var has []string
	if c.Cert != "" {
		has = append(has, "certificate")
	}
	if c.TokenFile != "" {
		has = append(has, "token")
	}
	if len(has) == 0 && c.Kube != nil {
		has = append(has, "Secret")
	}
	return orDash(strings.Join(has, ", "))
}

func (a *app) currentContextCommand() *cobra.Command {
	return &cobra.Command{
		Use: "current-context", Short: "Print the name of the context in use",
		Long:    "Current-context prints the name of the context that commands use.\nIt ends with exit code 3 if there is none.",
		Example: "  scriptctl config current-context", Args: wantArgs(0, 0, "no argument", ""),
		RunE: func(*cobra.Command, []string) error {
			c, err := a.context()
			if err != nil {
				return usage(err)
			}
			if c.Name == "" {
				return script.Errorf(script.NotFound, "name", "no context is in use: scriptctl config use-context NAME")
			}
			return a.print(map[string]string{"context": c.Name}, func(w io.Writer) { fmt.Fprintln(w, c.Name) })
		},
	}
}

func (a *app) useContextCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use-context NAME", Short: "Make a context the current one", Long: "Use-context makes a context the one that commands use without --context.",
		Example: "  scriptctl config use-context production", Args: wantArgs(1, 1, "a context", "NAME"), ValidArgsFunction: a.completeContexts(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeConfig("now in use", args[0], func(file *contexts.File) error {
				_, err := file.Get(args[0])
				file.Current = args[0]
				return err
			})
		},
	}
}

func (a *app) deleteContextCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete-context NAME", Short: "Remove a context from the configuration",
		Long:    "Delete-context removes a context. The files that it names stay.",
		Example: "  scriptctl config delete-context staging", Args: wantArgs(1, 1, "a context", "NAME"), ValidArgsFunction: a.completeContexts(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeConfig("deleted", args[0], func(file *contexts.File) error { return file.Delete(args[0]) })
		},
	}
}

func (a *app) viewConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use: "view", Short: "Print the configuration", Long: "View prints the configuration. It has names of files with secrets, and no secret.",
		Example: "  scriptctl config view -o json", Args: wantArgs(0, 0, "no argument", ""),
		RunE: func(*cobra.Command, []string) error {
			file, _, err := a.loadConfig(true)
			if err != nil {
				return usage(err)
			}
			if file.Contexts == nil {
				file.Contexts = []contexts.Context{}
			}
			return a.print(file, func(w io.Writer) {
				data, _ := file.Encode() // strings alone
				_, _ = w.Write(data)     // see output
			})
		},
	}
}

const setContextLong = `Set-context adds a context, or changes the fields of one whose flags are given. An empty
value, such as --tenant "", removes the field.

The connection is that of the flags --registry, --ca, --cert, --key, --token-file,
--insecure-plaintext, --kube and --kube-context. Commands find no registry in the
environment's variables while the context is named by --context.

With --kube, a context has no address: scriptctl goes through the API server of the
cluster, with the credentials of a Secret unless the context names files.`

func (a *app) setContextCommand() *cobra.Command {
	var tenant, service, secret string
	var use bool
	cmd := &cobra.Command{
		Use: "set-context NAME", Short: "Add a context, or change one", Long: setContextLong,
		Example: `  scriptctl config set-context production --registry registry.example.org:7070 --ca ca.crt --token-file ci.token --use
  scriptctl config set-context cluster --kube --kube-context kind-dev --tenant acme`,
		Args: wantArgs(1, 1, "a name", "NAME"), ValidArgsFunction: a.completeContexts(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeConfig("saved", args[0], func(file *contexts.File) error {
				c := contexts.Context{Name: args[0]}
				if old := file.Find(args[0]); old != nil {
					c = *old
				}
				if err := a.setFields(cmd, &c, map[string]string{"tenant": tenant, "kube-service": service, "kube-secret": secret}); err != nil {
					return err
				}
				if use || file.Current == "" && len(file.Contexts) == 0 {
					file.Current = c.Name
				}
				return file.Set(c)
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "the tenant of scripts and keys that are named without one")
	cmd.Flags().StringVar(&service, "kube-service", "", "the Service of the registry (default scriptorium-registry)")
	cmd.Flags().StringVar(&secret, "kube-secret", "", "the Secret with ca.crt, and tls.crt and tls.key, or token (default scriptorium-admin-tls)")
	cmd.Flags().BoolVar(&use, "use", false, "make it the current context; the first context is that anyway")
	must(cmd.RegisterFlagCompletionFunc("tenant", a.completeTenants))
	return cmd
}

// setFields changes the fields whose flags were given.
func (a *app) setFields(cmd *cobra.Command, c *contexts.Context, own map[string]string) error {
	given := cmd.Flags().Changed
	for _, file := range []struct {
		flag, value string
		field       *string
	}{{"ca", a.caller.CA, &c.CA}, {"cert", a.caller.Cert, &c.Cert}, {"key", a.caller.Key, &c.Key}, {"token-file", a.caller.TokenFile, &c.TokenFile}} {
		if !given(file.flag) {
			continue
		}
		*file.field = ""
		if file.value != "" {
			path, err := filepath.Abs(file.value)
			if err != nil {
				return err
			}
			if _, err := os.Stat(path); err != nil {
				a.warn(fmt.Sprintf("--%s: %v: the context cannot be used until the file is there", file.flag, err))
			}
			*file.field = path
		}
	}
	if given("registry") {
		c.Registry = a.registry
		if a.registry != "" {
			c.Kube = nil
		}
	}
	if given("insecure-plaintext") {
		c.InsecurePlaintext = a.plain
	}
	if given("tenant") {
		c.Tenant = own["tenant"]
	}
	kube := contexts.Kube{}
	if c.Kube != nil {
		kube = *c.Kube
	}
	through := false
	for _, f := range []struct {
		flag, value string
		field       *string
	}{{"kube", a.kube.namespace, &kube.Namespace}, {"kube-context", a.kube.context, &kube.Context}, {"kube-service", own["kube-service"], &kube.Service}, {"kube-secret", own["kube-secret"], &kube.Secret}} {
		if given(f.flag) {
			*f.field, through = f.value, true
		}
	}
	if through {
		c.Kube = &kube
		if !given("registry") {
			c.Registry = ""
		}
	}
	return nil
}

// changeConfig changes the file, for one process at a time, and says what became of the context.
func (a *app) changeConfig(done, name string, change func(*contexts.File) error) error {
	path, _, err := a.configPath()
	if err != nil {
		return usage(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := lockFolder(path)
	if err != nil {
		return err
	}
	defer unlock()
	file, _, err := a.loadConfig(false)
	if err != nil {
		return usage(err)
	}
	if err := change(file); err != nil {
		if script.KindOf(err) == script.NotFound {
			return err
		}
		return usage(err)
	}
	data, err := file.Encode()
	if err != nil {
		return err
	}
	if err := writeFile(path, 0o600, true, data); err != nil {
		return err
	}
	return a.print(map[string]string{"context": name, "outcome": done, "file": path}, func(w io.Writer) { fmt.Fprintf(w, "context %s %s: %s\n", name, done, plain(path)) })
}

// completeContexts completes the name of a context, as one of so many arguments, or as the value of a flag.
func (a *app) completeContexts(arguments int) completion {
	return func(_ *cobra.Command, args []string, prefix string) (names []cobra.Completion, directive cobra.ShellCompDirective) {
		directive = cobra.ShellCompDirectiveNoFileComp
		file, _, err := a.loadConfig(true)
		if err != nil || arguments > 0 && len(args) >= arguments {
			return nil, directive
		}
		for i := range file.Contexts {
			if c := &file.Contexts[i]; strings.HasPrefix(c.Name, prefix) {
				names = append(names, cobra.CompletionWithDesc(c.Name, whereOf(c)))
			}
		}
		return names, directive
	}
}
