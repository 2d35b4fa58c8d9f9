package scriptctl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/script"
)

const devLong = `Dev runs the tests of scripts on this machine whenever a file changes, until you press Ctrl-C.

With --remote it also publishes your working copy to the fleet, each time that the tests pass.
The copy is a personal version: only calls with your key run it, and all others run what they
ran before. A personal version of acme/route is a script of its own, such as
acme/route-dev-ann. It has its own versions, logs and figures, and no trigger: it runs where
acme/route runs, in chains, too. It reads the values and counters of the tenant.

Dev prints the key. A request through a gateway has it in the header x-scriptorium-dev;
--key-from names another part of requests. Other callers give it as the key of the call, as
"scriptctl call --key" does. Whoever knows the key gets the personal version.

Ctrl-C deletes the personal version. If that fails, the registry deletes it when its time is
over (--for); each save extends that. --once publishes once, and leaves it until then.

Libraries are not published: a personal version requires those of the registry. spec.tests
run on this machine alone.`

// devOptions are the flags of dev.
type devOptions struct {
	remote, once  bool
	as, key, from string
	lasts         time.Duration
	note          string
	tests         testOptions
	sign          string
	names         map[script.Name]bool // of the personal versions that it has published, and whether it has told how to call them
	signFlags
	wait waitFlags
}

// personalView says whose personal version a script is.
type personalView struct {
	Of    string     `json:"of"`
	Key   string     `json:"key"`
	From  string     `json:"from,omitempty"`
	Until *time.Time `json:"until"`
}

func viewOfPersonal(p *script.Personal) *personalView {
	if p == nil {
		return nil
	}
	return &personalView{Of: p.Of, Key: p.Key, From: string(p.From), Until: timeView(p.Until)}
}

// String says it on one line.
func (v *personalView) String() string {
	from := ""
	if v.From != "" {
		from = " in " + v.From
	}
	return plain(fmt.Sprintf("of %s, for calls with the key %s%s, until %s", v.Of, v.Key, from, v.Until.UTC().Format(time.RFC3339)))
}

func (a *app) devCommand() *cobra.Command {
	o := devOptions{names: map[script.Name]bool{}, wait: waitFlags{wait: true}}
	cmd := &cobra.Command{
		Use: "dev [PATH...]", Short: "Test on each save, and try a working copy on the fleet by a key of your own", Long: devLong,
		Example: "  scriptctl dev\n  scriptctl dev --remote route.yaml\n  scriptctl dev --remote --as ann --key ann-3f9c1b72 --for 1h",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			return a.dev(cmd.Context(), args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.remote, "remote", false, "publish the working copy as a personal version")
	f.BoolVar(&o.once, "once", false, "do it once: do not wait for changes, and keep the personal version")
	f.StringVar(&o.as, "as", "", "whose personal version: the end of its name (default: your user name)")
	f.StringVar(&o.key, "key", "", "the key of the calls that run it (default: a random one)")
	f.StringVar(&o.from, "key-from", "request.headers.x-scriptorium-dev", "where a request through a gateway has the key")
	f.DurationVar(&o.lasts, "for", 8*time.Hour, fmt.Sprintf("how long the personal version lasts after the last save, at most %v", script.MaxPersonalTime))
	addNote(cmd, &o.note)
	f.StringVar(&o.sign, "sign", "", "file of the publisher's private key to sign with")
	f.DurationVar(&o.wait.timeout, "timeout", 30*time.Second, "how long to wait until every agent has the personal version")
	must(cmd.MarkFlagFilename("sign"))
	o.add(cmd)
	return cmd
}

func (a *app) dev(ctx context.Context, paths []string, o *devOptions) error {
	if o.remote {
		if err := o.complete(a); err != nil {
			return err
		}
	}
	round := func() error { return a.devRound(ctx, paths, o) }
	if o.once {
		return round()
	}
	err := a.watch(ctx, paths, round)
	if len(o.names) == 0 {
		return err
	}
	return errors.Join(err, a.endDev(context.WithoutCancel(ctx), o, slices.Collect(maps.Keys(o.names))))
}

// complete sets and checks the flags of --remote.
func (o *devOptions) complete(a *app) error {
	if o.as == "" {
		write, err := a.write("")
		if err != nil {
			return err
		}
		o.as = asLabel(write.Author)
	}
	if err := script.ValidateLabel("--as", o.as); err != nil {
		return usage(err)
	}
	if o.key == "" {
		o.key = o.as + "-" + strings.ToLower(rand.Text()[:12])
	}
	from, err := script.ParseKeySource("--key-from", o.from)
	if err != nil {
		return usage(err)
	}
	o.from = string(from)
	if o.lasts <= 0 || o.lasts > script.MaxPersonalTime {
		return usage(script.Errorf(script.Invalid, "--for", "%v is not between 0 and %v", o.lasts, script.MaxPersonalTime))
	}
	return nil
}

// asLabel returns the name of a user as the end of a script's name.
func asLabel(user string) string {
	label := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(user))
	return strings.Trim(label[:min(len(label), 16)], "-")
}

// devRound tests the scripts, and publishes them if they pass.
func (a *app) devRound(ctx context.Context, paths []string, o *devOptions) error {
	suites, err := a.loadSuites(engines.Offline(), paths)
	if err != nil {
		return usage(err)
	}
	if cases(suites) > 0 {
		if err := a.test(ctx, paths, &o.tests); err != nil {
			return err
		}
	}
	if !o.remote {
		return nil
	}
	manifests, err := a.loadManifests(paths)
	if err != nil {
		return usage(err)
	}
	if err := check(manifests); err != nil {
		return err
	}
	return a.publishPersonal(ctx, manifests, o)
}

func (a *app) publishPersonal(ctx context.Context, manifests []manifest.Manifest, o *devOptions) error {
	personal := make([]manifest.Manifest, 0, len(manifests))
	for i := range manifests {
		if manifests[i].Settings.Library {
			a.notice("%s is a library, which dev does not publish: the personal versions require that of the registry", manifests[i].Name)
			continue
		}
		p, err := o.personal(manifests[i])
		if err != nil {
			return usage(err)
		}
		personal = append(personal, p)
	}
	if len(personal) == 0 {
		return usage(errors.New("there is no script to publish: name a manifest, or a folder of them"))
	}
	if o.sign != "" {
		if err := a.signAll(ctx, personal, o.sign, &o.signFlags); err != nil {
			return err
		}
	}
	write, err := a.write(o.note)
	if err != nil {
		return err
	}
	gone := maps.Clone(o.names)
	for i := range personal {
		name := personal[i].Name
		if delete(gone, name); !o.names[name] {
			o.names[name] = false // also one of which the answer does not come
		}
	}
	// Without its manifest a script is not part of the working copy any more.
	if err := a.endDev(ctx, o, slices.Collect(maps.Keys(gone))); err != nil {
		a.printError(err)
	}
	goals, held, err := a.publishAll(ctx, personal, &publishOptions{}, write)
	err = a.conclude(ctx, &o.wait, goals, err, held)
	if ctx.Err() == nil {
		o.tell(a, goals) // also if another one is refused, or an agent is down: nobody else knows a random key
	}
	return err
}

// personal returns the manifest of the personal version.
func (o *devOptions) personal(m manifest.Manifest) (manifest.Manifest, error) {
	of := m.Name
	m.Name = script.PersonalName(of, o.as)
	if err := m.Name.Validate(); err != nil {
		return m, script.Errorf(script.Invalid, "--as", "%s is no name of a script: choose a shorter one: %s", m.Name, script.AsError(err).Message)
	}
	m.Settings = script.Settings{Spec: m.Settings.Spec, HistoryLimit: 2}
	m.Settings.Trigger, m.Settings.Tests = script.Trigger{}, nil
	m.Settings.Personal = &script.Personal{Of: of.Script, Key: o.key, From: script.KeySource(o.from), Until: time.Now().Add(o.lasts).Truncate(time.Second)}
	m.Enabled, m.Pin, m.Signature = true, 0, ""
	return m, nil
}

// tell says once of each personal version how to call it.
func (o *devOptions) tell(a *app, published goals) {
	names := slices.SortedFunc(maps.Keys(published), func(m, n script.Name) int { return strings.Compare(m.String(), n.String()) })
	names = slices.DeleteFunc(names, func(n script.Name) bool { return o.names[n] })
	if len(names) == 0 {
		return
	}
	part, name := script.KeySource(o.from).Parts()
	where := "the key in " + o.from
	if part == script.KeyHeader {
		where = fmt.Sprintf("the header %s: %s", name, o.key)
	}
	text := fmt.Sprintf("Requests through a gateway with %s run your copy, and so do calls with the key %s.", where, o.key)
	if a.output == formatTable {
		fmt.Fprintln(a.Out, text)
	} else {
		a.notice("%s", text)
	}
	for _, name := range names {
		o.names[name] = true
		if of := (script.Name{Tenant: name.Tenant, Script: strings.TrimSuffix(name.Script, "-dev-"+o.as)}); a.output == formatTable {
			fmt.Fprintf(a.Out, "  scriptctl call %s --key %s\n  scriptctl logs -f %s\n", of, o.key, name)
		}
	}
}

// endDev deletes those of its personal versions that have the key.
func (a *app) endDev(ctx context.Context, o *devOptions, names []script.Name) error {
	if len(names) == 0 {
		return nil
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := a.connect()
	if err != nil {
		return err
	}
	write, err := a.write("the personal version is not needed any more")
	if err != nil {
		return err
	}
	var errs []error
	slices.SortFunc(names, func(m, n script.Name) int { return strings.Compare(m.String(), n.String()) })
	for _, name := range names {
		r, err := client.Get(ctx, name)
		if err == nil && (r.Settings.Personal == nil || r.Settings.Personal.Key != o.key) || script.KindOf(err) == script.NotFound {
			delete(o.names, name)
			continue
		}
		if err == nil {
			write.ExpectedRevision = r.Revision
			_, err = client.Delete(ctx, name, write)
		}
		if err != nil && script.KindOf(err) != script.NotFound {
			errs = append(errs, fmt.Errorf("%s is not deleted, and expires by itself: %w", name, err))
			continue
		}
		delete(o.names, name)
		if err := a.print(deletedView{name.String(), true}, func(w io.Writer) { fmt.Fprintf(w, "%s deleted\n", name) }); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// deletedView is a personal version at the end.
type deletedView struct {
	Script  string `json:"script"`
	Deleted bool   `json:"deleted"`
}
