package scriptctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/script"
)

func (a *app) diffCommand() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "diff TENANT/NAME [FROM [TO]] | -f FILE|DIR",
		Short: "Show what changed between two versions, or between files and the registry",
		Long: `Diff prints what changed between two versions of a script, as a unified diff. It compares
the source, limits, trigger, onError, log, config, tests and the versions of libraries.

Without FROM it compares the active version with the one before it; without TO,
FROM with the active version. Equal versions print nothing.

With -f, diff compares manifests with the latest version of their scripts: the source as
a unified diff, and every other field that differs. It then ends as diff(1) and kubectl
diff do: with exit code 0 without a difference, 1 with one, and a higher code for an
error.`,
		Example: "  scriptctl diff acme/route\n  scriptctl diff acme/route 7 9\n  scriptctl diff -f scripts",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(files) > 0 {
				return wantArgs(0, 0, "no script beside -f", "-f FILE|DIR")(cmd, args)
			}
			return wantArgs(1, 3, "a script, and two versions at most", "tenant/name [FROM [TO]]")(cmd, args)
		},
		ValidArgsFunction: a.completeNameThenVersions(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(files) > 0 {
				return a.asDiff(a.diffFiles(cmd.Context(), files))
			}
			name, from, err := a.nameAndVersion(args[:min(2, len(args))])
			if err != nil {
				return err
			}
			var to uint64
			if len(args) == 3 {
				if to, err = parseVersion(args[2]); err != nil {
					return err
				}
			}
			return a.diff(cmd.Context(), name, from, to)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "a manifest, a folder of them, or - for standard input; may be repeated")
	must(cmd.MarkFlagFilename("file", manifestExtensions...))
	return cmd
}

func (a *app) diff(ctx context.Context, name script.Name, from, to uint64) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	if from == 0 || to == 0 {
		r, err := client.Get(ctx, name)
		if err != nil {
			return about(name.String(), err)
		}
		to = r.Active.Number
		if from == 0 {
			if from = versionBefore(&r); from == 0 {
				return noneBefore(&r)
			}
		}
	}
	oldRef, newRef := script.Ref{Name: name, Version: from}, script.Ref{Name: name, Version: to}
	before, err := client.Source(ctx, oldRef)
	if err != nil {
		return about(oldRef.String(), err)
	}
	after, err := client.Source(ctx, newRef)
	if err != nil {
		return about(newRef.String(), err)
	}
	text := sourceDiff(oldRef.String(), &before, newRef.String(), &after)
	settings := unified(oldRef.String()+" settings", settingsText(before.Spec), newRef.String()+" settings", settingsText(after.Spec))
	view := diffView{Script: name.String(), From: from, To: to, Diff: text, Settings: settings}
	if before.Entrypoint != after.Entrypoint {
		view.Entrypoint = &entrypointDiff{From: before.Entrypoint, To: after.Entrypoint}
	}
	if a.output != formatTable {
		return a.print(view, nil)
	}
	if e := view.Entrypoint; e != nil {
		fmt.Fprintf(a.Err, "the entrypoint changed from %q to %q\n", e.From, e.To)
	}
	return a.writeDiff(text + settings)
}

// noneBefore says that nothing is older than the active version, and what can be compared.
func noneBefore(r *script.Release) error {
	text := fmt.Sprintf("%s has no version before v%d to compare with", r.Name, r.Active.Number)
	if c := r.Candidate; c != nil && c.Version.Number != r.Active.Number {
		text += fmt.Sprintf("; its candidate is v%d: scriptctl diff %s %d %d", c.Version.Number, r.Name, r.Active.Number, c.Version.Number)
	}
	return script.Errorf(script.NotFound, "", "%s", text)
}

// unified returns the unified diff of two texts; "" if they are equal.
func unified(from string, before []byte, to string, after []byte) string {
	text := string(diff.Diff(from, before, to, after))
	_, text, _ = strings.Cut(text, "\n") // its first line repeats the names
	return text
}

// settingsText returns what a version runs with as lines.
func settingsText(s script.Spec) []byte {
	text, err := json.MarshalIndent(viewOfSpec(s), "", "  ")
	if err != nil {
		return nil // JSON that the registry has checked
	}
	return append(text, '\n')
}

// diffView is what changed between two versions.
type diffView struct {
	Script     string          `json:"script"`
	From       uint64          `json:"from"`
	To         uint64          `json:"to"`
	Diff       string          `json:"diff"`                 // unified; empty for equal sources
	Settings   string          `json:"settings,omitempty"`   // as diff, of limits, trigger, onError, log, config and tests
	Entrypoint *entrypointDiff `json:"entrypoint,omitempty"` // when it changed
}

type entrypointDiff struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// versionBefore returns the highest retained version below the active one, or 0.
func versionBefore(r *script.Release) uint64 {
	var number uint64
	for _, v := range r.Retained {
		if v.Number < r.Active.Number {
			number = max(number, v.Number)
		}
	}
	return number
}

func (a *app) writeDiff(text string) error {
	if !a.OutTerminal { // patch reads it as it is
		_, err := io.WriteString(a.Out, text)
		return err
	}
	bold, red, green, cyan, reset := "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[0m"
	if os.Getenv("NO_COLOR") != "" {
		bold, red, green, cyan, reset = "", "", "", "", ""
	}
	var errs []error
	for line := range strings.Lines(text) {
		line, colour := plain(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")), ""
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
			colour = bold
		case strings.HasPrefix(line, "@@"):
			colour = cyan
		case strings.HasPrefix(line, "-"):
			colour = red
		case strings.HasPrefix(line, "+"):
			colour = green
		}
		_, err := fmt.Fprintf(a.Out, "%s%s%s\n", colour, line, reset)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
