package scriptctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/script"
)

const publishLong = `Publish makes scripts match their manifests: source, settings, pin and
whether they are enabled. A new source becomes a version. A source that equals the
latest version changes nothing.

Publish reads and compiles all manifests first. If any is wrong, it shows all faults
and sends nothing. With --dry-run it also runs their tests: see "scriptctl test". Then
it publishes one after the other. If the registry refuses one, publish goes on with the
others and exits with an error.

A script has the libraries that it requires ("require") as they are when it is published.
To have it use newer ones, publish it again. Publish sends libraries before the scripts that
require them. --library publishes libraries, like spec.library: true.

A manifest with spec.version pins the script to that version. A manifest without it
follows the latest.

If somebody holds the script ("scriptctl rollback", "pin" or "hold"), publish stores
the version, says who holds the script and why, and exits with 9: what runs does not
change. --lift-hold lifts the hold in the same transaction, and needs the role release.
While the registry is frozen ("scriptctl freeze"), publish does the same, and the version
begins when the freeze is over.

A new version of a script with tests or rollout steps becomes a candidate first.
"scriptctl rollout" shows how far it is. --wait waits until the version is live
everywhere, or prints why the rollout failed. Pauses between steps count: give a
longer --timeout.

--sign signs what is published, for tenants that require it: see "scriptctl sign". A
manifest that has a spec.signature keeps it otherwise.

A manifest is a file, with or without -f before it, or - for standard input. From a
folder, publish reads *.yaml, *.yml and *.json, but no folders below it.`

const publishExample = `  scriptctl publish examples/scripts
  scriptctl publish route.yaml --note "carts go to cart-v2" --wait
  kubectl get script route -o yaml | scriptctl publish -f - --dry-run`

var manifestExtensions = []string{"yaml", "yml", "json"}

type publishOptions struct {
	files  []string
	dryRun bool
	sign   string
	lift   bool
	isNew  bool
	// library makes libraries of all scripts.
	library bool
	signFlags
	changeFlags
}

// publishView is the outcome for one manifest.
type publishView struct {
	Script   string          `json:"script"`
	Outcome  string          `json:"outcome"` // published, stored, unchanged, "would be published", "would be stored", refused or "not sent"
	Version  uint64          `json:"version,omitempty"`
	Digest   script.Digest   `json:"digest,omitzero"`
	Revision script.Revision `json:"revision,omitempty"`
	Active   uint64          `json:"activeVersion,omitempty"`
	File     string          `json:"file"`
	Line     int             `json:"line"`
	Error    string          `json:"error,omitempty"`
	// Candidate is the version that has to be tested, or rolled out, before it is active.
	Candidate *candidateView `json:"candidate,omitempty"`
	// Hold is what keeps the script at its active version; heldBack says so, or who froze the
	// registry, if that is not the one that the manifest wants.
	Hold     *holdView `json:"hold,omitempty"`
	HeldBack string    `json:"heldBack,omitempty"`
	// Warnings are of a plan that cannot go on as the fleet is.
	Warnings []string `json:"warnings,omitempty"`
	// Libraries are what the version has of other scripts.
	Libraries []libraryView `json:"libraries,omitempty"`
}

func (a *app) publishCommand() *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:     "publish FILE|DIR...",
		Short:   "Publish the scripts of manifests",
		Long:    publishLong,
		Example: publishExample,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = append(o.files, args...)
			if len(o.files) == 0 {
				return usage(errors.New("publish wants a file or folder: publish -f FILE|DIR"))
			}
			return a.publish(cmd.Context(), &o)
		},
	}
	cmd.Flags().StringArrayVarP(&o.files, "file", "f", nil, "a manifest, a folder of them, or - for standard input; may be repeated")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "run the tests, let the registry check everything, and store nothing")
	cmd.Flags().StringVar(&o.sign, "sign", "", "file of the publisher's private key to sign with")
	cmd.Flags().BoolVar(&o.lift, "lift-hold", false, "lift a hold of the script, so that what is published runs")
	cmd.Flags().BoolVar(&o.library, "library", false, "publish libraries, as if the manifests had spec.library: true")
	must(cmd.MarkFlagFilename("sign"))
	cmd.Flags().BoolVar(&o.isNew, "new", false, "publish only scripts that do not exist yet; the registry refuses the others")
	o.signFlags.add(cmd)
	o.changeFlags.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	must(cmd.MarkFlagFilename("file", manifestExtensions...))
	return cmd
}

func (a *app) publish(ctx context.Context, o *publishOptions) error {
	write, err := a.writeAs(&o.changeFlags)
	if err != nil {
		return err
	}
	if o.isNew {
		write.ExpectedRevision = script.Absent
	}
	manifests, err := a.publishable(ctx, o)
	if err != nil {
		return err
	}
	goals, held, err := a.publishAll(ctx, manifests, o, write)
	return a.conclude(ctx, &o.wait, goals, err, held)
}

// publishAll publishes the manifests one after the other, and prints what becomes of each. It returns what the scripts
// are to reach, whether one is held back, and the first error, which is printed already.
func (a *app) publishAll(ctx context.Context, manifests []manifest.Manifest, o *publishOptions, write registryclient.Write) (goals goals, held bool, first error) {
	client, err := a.connect()
	if err != nil {
		a.printError(err)
		return nil, false, err
	}
	views := make([]publishView, 0, len(manifests))
	goals = map[script.Name]goal{}
	for i := range manifests {
		m := &manifests[i]
		request := m.Publish()
		request.Write, request.DryRun, request.LiftHold = write, o.dryRun, o.lift
		published, err := publish(ctx, client, &request)
		if err != nil && o.dryRun && awaitsLibrary(m, manifests, err) {
			view := publishView{Script: m.Name.String(), Outcome: "would be published", Digest: digestOf(m), File: m.File, Line: m.Line}
			view.Warnings = []string{"it requires libraries that are published with it, so the registry did not check it"}
			views = append(views, view)
			a.printPublished(&view)
			continue
		}
		if err != nil {
			err = named(m, err)
			a.printError(err)
			first = firstOf(first, err)
			views = append(views, publishView{Script: m.Name.String(), Outcome: "refused", File: m.File, Line: m.Line, Error: text(err)})
			if exitCode(err) == exitUnreachable {
				views = append(views, a.reportUnsent(manifests[i+1:])...)
				break
			}
			continue
		}
		view := viewOfPublished(m, &published, o.dryRun)
		views = append(views, view)
		if view.HeldBack == "" {
			goals[m.Name] = goalOf(&published.Release)
		}
		a.printPublished(&view)
	}
	if err := a.print(views, func(io.Writer) {}); err != nil {
		a.printError(err)
		first = firstOf(first, err)
	}
	held = slices.ContainsFunc(views, func(v publishView) bool { return v.HeldBack != "" })
	return goals, held, first
}

// publish publishes a script. A personal version never takes the place of an ordinary script, also if the registry does not
// know personal versions, and publishes an ordinary script instead: publish deletes that.
func publish(ctx context.Context, client *registryclient.Client, request *registryclient.PublishRequest) (published registryclient.Published, err error) {
	personal := request.Settings != nil && request.Settings.Personal != nil
	if personal {
		r, err := client.Get(ctx, request.Name)
		if err == nil && r.Settings.Personal == nil {
			return published, script.Errorf(script.Invalid, "--as", "%s is no personal version: choose another name", r.Name)
		}
		if err != nil && script.KindOf(err) != script.NotFound {
			return published, err
		}
	}
	published, err = client.Publish(ctx, *request)
	if err != nil || !personal || published.Release.Settings.Personal != nil {
		return published, err
	}
	unknown := script.Errorf(script.Invalid, "personal", "the registry is too old for personal versions: upgrade registryd")
	if request.DryRun || !published.Changed || len(published.Release.Retained) != 1 { // it may be somebody's script
		return published, unknown
	}
	write := request.Write
	write.ExpectedRevision = published.Release.Revision
	if _, err := client.Delete(ctx, request.Name, write); err != nil {
		return published, fmt.Errorf("%w. It published an ordinary script, which cannot be deleted now (scriptctl delete %s): %w", unknown, request.Name, err)
	}
	return published, unknown
}

// publishable returns the manifests to publish, which compile, in their order. They are signed, if they are to be.
func (a *app) publishable(ctx context.Context, o *publishOptions) ([]manifest.Manifest, error) {
	manifests, err := a.loadManifests(o.files)
	if err != nil {
		return nil, usage(err)
	}
	if o.library {
		for i := range manifests {
			manifests[i].AsLibrary()
		}
	}
	if err := check(manifests); err != nil {
		return nil, err
	}
	if o.dryRun {
		if err := a.resolve(ctx, manifests, false); err != nil {
			return nil, err
		}
		if err := a.dryRunTests(ctx, manifests); err != nil {
			return nil, err
		}
	}
	if o.sign != "" {
		if err := a.signAll(ctx, manifests, o.sign, &o.signFlags); err != nil {
			return nil, err
		}
	}
	return manifests, nil
}

// conclude waits for the goals, if it is to, and returns the exit code of a command for several scripts.
// first is the first error so far, which is printed already. held says that what runs did not change.
func (a *app) conclude(ctx context.Context, wait *waitFlags, goals goals, first error, held bool) error {
	if err := a.awaitIf(ctx, wait, goals); err != nil {
		a.printError(err)
		first = firstOf(first, err)
	}
	switch {
	case first != nil:
		return &exitError{code: exitCode(first)}
	case held:
		return &exitError{code: exitHeld}
	}
	return nil
}

// printPublished prints the line of one manifest; programs get all of them together.
func (a *app) printPublished(v *publishView) {
	switch {
	case a.output == formatTable:
		fmt.Fprintln(a.Out, v)
	case v.HeldBack != "":
		a.warn(plain(v.Script + " is " + v.HeldBack))
	}
	for _, w := range v.Warnings {
		a.warn(plain(v.Script + ": " + w))
	}
}

func firstOf(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

func (a *app) reportUnsent(manifests []manifest.Manifest) (views []publishView) {
	for i := range manifests {
		m := &manifests[i]
		a.printError(&exitError{code: exitUnreachable, err: fmt.Errorf("%s: not sent", m.Name)})
		views = append(views, publishView{Script: m.Name.String(), Outcome: "not sent", File: m.File, Line: m.Line})
	}
	return views
}

func viewOfPublished(m *manifest.Manifest, p *registryclient.Published, dryRun bool) publishView {
	v := publishView{
		Script: m.Name.String(), Outcome: "unchanged", Version: p.Version.Number, Digest: p.Version.Digest,
		Revision: p.Release.Revision, Active: p.Release.Active.Number, File: m.File, Line: m.Line,
		Candidate: viewOfCandidate(&p.Release), Hold: viewOfHold(p.Release.Hold), HeldBack: p.Release.HeldBack(),
		Warnings: p.Warnings, Libraries: viewOfLibraries(p.Libraries),
	}
	switch {
	case !p.Changed:
		return v
	case v.HeldBack != "":
		v.Outcome = "stored"
	default:
		v.Outcome = "published"
	}
	if dryRun {
		v.Outcome = "would be " + v.Outcome
	}
	return v
}

func (v publishView) String() string {
	if v.Version == 0 {
		return fmt.Sprintf("%s %s %s", v.Script, v.Digest.Short(), v.Outcome)
	}
	s := fmt.Sprintf("%s v%d %s %s%s", v.Script, v.Version, v.Digest.Short(), v.Outcome, withLibraries(v.Libraries))
	if v.HeldBack != "" {
		return s + "; " + plain(v.HeldBack)
	}
	other := v.Active != v.Version
	if c := v.Candidate; c != nil && c.Version == v.Version {
		switch failed := c.State == script.CandidateFailed; {
		case failed && other:
			return s + fmt.Sprintf(" (given up: %s; v%d is active)", plain(c.Reason), v.Active)
		case failed:
			return s + fmt.Sprintf(" (given up: %s; nothing is active)", plain(c.Reason))
		case other:
			return s + fmt.Sprintf(" (on trial, v%d is active: scriptctl rollout status %s)", v.Active, v.Script)
		}
		return s + fmt.Sprintf(" (on trial, nothing is active before: scriptctl rollout status %s)", v.Script)
	}
	switch {
	case other && v.Hold != nil:
		s += fmt.Sprintf(" (spec.version pins it to v%d, which is also held)", v.Active)
	case other:
		s += fmt.Sprintf(" (spec.version pins it to v%d: without it, v%d goes live)", v.Active, v.Version)
	}
	return s
}

func (a *app) loadManifests(files []string) ([]manifest.Manifest, error) {
	var all []manifest.Manifest
	var faults []error
	seen := make(map[script.Name]string)
	for _, file := range files {
		manifests, err := a.loadFile(file)
		if err != nil {
			faults = append(faults, err)
		} else if len(manifests) == 0 {
			faults = append(faults, fmt.Errorf("%s holds no manifests: want %s documents in *.yaml, *.yml or *.json", file, manifest.Kind))
		}
		for _, m := range manifests {
			if other, ok := seen[m.Name]; ok {
				faults = append(faults, fmt.Errorf("%s:%d: %s already has a manifest in %s: give one of the two", m.File, m.Line, m.Name, other))
			}
			seen[m.Name] = m.File
		}
		all = append(all, manifests...)
	}
	return manifest.InOrder(all), errors.Join(faults...)
}

func (a *app) loadFile(file string) ([]manifest.Manifest, error) {
	if file != "-" {
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			return nil, script.Errorf(script.Invalid, file, "is neither a file nor a folder: want one of these, or - for standard input")
		}
		return manifest.Load(file)
	}
	data, err := io.ReadAll(io.LimitReader(a.In, manifest.MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	if len(data) > manifest.MaxFileBytes {
		return nil, fmt.Errorf("standard input is larger than %d bytes", manifest.MaxFileBytes)
	}
	return manifest.Parse("stdin", data, ".")
}

// check compiles all sources and runs none.
func check(manifests []manifest.Manifest) error {
	set := engines.Offline()
	var faults []error
	for i := range manifests {
		m := &manifests[i]
		if _, err := checked(set, m); err != nil {
			faults = append(faults, named(m, err))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return &exitError{code: exitRefused, err: errors.Join(faults...)}
}

// checked compiles the source of the manifest, and returns it. What is in an OCI registry is for the registry to check.
func checked(set *engines.Set, m *manifest.Manifest) (engine.Source, error) {
	src := engine.Source{Code: m.Source, Entrypoint: m.Entrypoint, Library: m.Settings.Library, Runtime: m.Settings.Runtime}
	if m.Settings.Artifact != "" {
		return src, nil
	}
	e, err := set.Of(m.Engine)
	if err != nil {
		return src, err
	}
	return src, e.Check(src)
}

// named returns err with the place that it is about: in the source, or else the
// manifest.
func named(m *manifest.Manifest, err error) error {
	located := m.Locate(err)
	if _, ok := errors.AsType[*manifest.Error](located); ok {
		return located
	}
	return &placedError{fmt.Errorf("%s (%s:%d): %w", m.Name, m.File, m.Line, err), m.File, m.Line}
}

// placedError is about a manifest, and not about a place in it.
type placedError struct {
	error
	file string
	line int
}

func (e *placedError) Unwrap() error { return e.error }
