package scriptctl

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const applyLong = `Apply publishes all scripts of the manifests, and values, in one transaction: either all
of it is live in one event, or nothing changes. If a script has tests, or there is a
rollout, all of it is one candidate.

It is a change set without a file, so "scriptctl changeset" shows it and rolls it back by
its name. Without --name, apply makes one from the time. All of it must be of one tenant.

If somebody holds one of the scripts, or the registry is frozen, apply stores nothing and
exits with 9. --lift-hold lifts the holds in the same transaction, and needs the role
release. Use "scriptctl publish" for scripts that are independent of each other.

A project owns its scripts: set project in .scriptorium.yaml, or --project. Apply then
shows a plan first, and carries it out when you agree, or with --yes. --prune deletes the
scripts of the project that no manifest has; without it, apply deletes nothing. Other
scripts, such as those of the operator, are never deleted. While one of the scripts is a
candidate, nothing is deleted: use --wait, or run apply again. With --dry-run, apply prints the
plan and ends with exit code 1 if there is a change.

Manifests are named as for "scriptctl publish".`

// applyOptions are the flags of apply.
type applyOptions struct {
	files   []string
	values  []string
	name    string
	rollout string
	projectOptions
	changeSetOptions
}

func (a *app) applyCommand() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply PATH...",
		Short: "Publish the scripts of manifests, and values, in one transaction",
		Long:  applyLong,
		Example: `  scriptctl apply route.yaml cart.yaml --value acme/flags=on --wait
  scriptctl apply scripts --value acme/prices=@prices.json --rollout plan.yaml --name cart-2
  scriptctl apply -f scripts --project shop --prune --dry-run`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			paths := append(o.files, args...)
			name, err := o.find(paths)
			if err != nil {
				return usage(err)
			}
			set, err := a.changeSetOf(paths, &o)
			if err != nil {
				return usage(err)
			}
			if name != "" {
				err := a.applyProject(cmd.Context(), name, paths, set, &o)
				if o.dryRun {
					err = a.asDiff(err)
				}
				return err
			}
			return a.publishChangeSet(cmd.Context(), set, &o.changeSetOptions)
		},
	}
	cmd.Flags().StringArrayVarP(&o.files, "file", "f", nil, "a manifest, a folder of them, or - for standard input; may be repeated")
	must(cmd.MarkFlagFilename("file", manifestExtensions...))
	cmd.Flags().StringArrayVar(&o.values, "value", nil, "a value, as `TENANT/KEY=TEXT`, or TENANT/KEY=@FILE for the content of a file; may be repeated")
	cmd.Flags().StringVar(&o.name, "name", "", "what the change set is called (default apply-, the time, and random characters)")
	cmd.Flags().StringVar(&o.rollout, "rollout", "", "`file` with the rollout plan of all of it: what spec.rollout of a manifest holds")
	must(cmd.MarkFlagFilename("rollout", manifestExtensions...))
	o.projectOptions.add(cmd)
	o.changeSetOptions.add(cmd)
	return cmd
}

// changeSetOf returns the change set of what apply is given.
func (a *app) changeSetOf(paths []string, o *applyOptions) (*manifest.ChangeSet, error) {
	if len(paths)+len(o.values) == 0 {
		return nil, errors.New("apply wants a manifest, a folder or a value: scriptctl apply FILE|DIR")
	}
	set := &manifest.ChangeSet{Name: o.name}
	if o.name == "" {
		set.Name = generatedName(time.Now())
	} else if err := script.ValidateLabel("--name", o.name); err != nil {
		return nil, err
	}
	var err error
	if set.Scripts, err = a.loadManifests(paths); err != nil {
		return nil, err
	}
	tenants := tenantPlaces{}
	for i := range set.Scripts {
		m := &set.Scripts[i]
		tenants.add(m.Name.Tenant, fmt.Sprintf("%s:%d", m.File, m.Line))
	}
	for _, flag := range o.values {
		key, content, err := readValue(flag)
		if err != nil {
			return nil, err
		}
		for _, v := range set.Values {
			if v.Key == key.Key && key.Tenant == tenants.first {
				return nil, script.Errorf(script.Invalid, "--value", "%s is there twice", key)
			}
		}
		tenants.add(key.Tenant, "--value "+key.String())
		set.Values = append(set.Values, manifest.Value{Key: key.Key, Content: content})
	}
	if tenants.err != nil {
		return nil, tenants.err
	}
	set.Tenant = tenants.first
	if o.rollout != "" {
		plan, err := manifest.LoadRollout(o.rollout)
		if err != nil {
			return nil, err
		}
		set.Rollout = &plan
	}
	return set, set.Validate()
}

// tenantPlaces finds out that there is one tenant.
type tenantPlaces struct {
	first, place string
	err          error
}

func (t *tenantPlaces) add(tenant, place string) {
	if t.first == "" {
		t.first, t.place = tenant, place
	}
	if tenant != t.first {
		t.err = cmp.Or(t.err, error(script.Errorf(script.Invalid, "", "%s (%s) and %s (%s) are two tenants: a transaction is for one, so apply each by itself", t.first, t.place, tenant, place)))
	}
}

// generatedName is "apply-20261125t201500z-k3v9qa".
func generatedName(now time.Time) string {
	return strings.ToLower("apply-" + now.UTC().Format("20060102T150405Z") + "-" + rand.Text()[:6])
}

// readValue reads a --value of apply.
func readValue(flag string) (key script.ValueKey, content []byte, err error) {
	name, text, ok := strings.Cut(flag, "=")
	if !ok {
		return key, nil, script.Errorf(script.Invalid, "--value", "%.80q is no value: want TENANT/KEY=TEXT, or TENANT/KEY=@FILE", flag)
	}
	if key, err = script.ParseValueKey(name); err != nil {
		return key, nil, err
	}
	path, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return key, []byte(text), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return key, nil, script.Errorf(script.Invalid, "--value", "%w", err)
	}
	content, err = readContent(f, path)
	return key, content, errors.Join(err, f.Close())
}
