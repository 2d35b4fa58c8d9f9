package scriptctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/replay"
	"github.com/scriptorium-dev/scriptorium/script"
)

const replayLong = `Replay runs the calls of a decision log again, on this machine, and prints which decisions
differ. It compares what the version returns with what the log says. With --against, it
compares two versions: the other one is the "-" side.

The versions are from the registry. --file, or --against FILE, reads one from a manifest,
or a source from a .lua file, which runs with the settings of the registry's version. A
manifest in both places needs no registry.

A call runs under the limits of its version and its tenant. Its clock stands still at the
record's time, random numbers follow from the record's id, counters are 0, and rate limits
are full. Log lines go nowhere. kv has what the object in --values says: each member is a
key, and its content is the text, or else the JSON.

A record cannot be compared if its input is masked, truncated or missing, or if the node
failed the call, for example with OVERLOADED. --masked compares also masked inputs: the
script then sees "***". Masked parts of a result are left out. Two errors are the same
decision if they are of the same kind.

--from reads records as JSON, one a line, also compressed by gzip; - is standard input.
Replay skips a line that is no record, and names its number. With --max-diff, such a line, or
a file that cannot be read to its end, makes the command fail.`

const replayExample = `  scriptctl replay acme/route@9 --from decisions.jsonl
  scriptctl replay acme/route@9 --against @8 --from decisions.jsonl.gz --max-diff 0.1%
  scriptctl replay acme/route --file route.yaml --from decisions.jsonl --max-diff 0`

type replayOptions struct {
	from    []string
	against string
	file    string
	values  string
	maxDiff string
	masked  bool
	limit   int64
	show    int
	workers int
}

func (a *app) replayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:               "replay TENANT/NAME[@VERSION] --from FILE",
		Short:             "Run recorded calls again and compare the decisions",
		Long:              replayLong,
		Example:           replayExample,
		Args:              wantArgs(1, 1, "a script and --from", "tenant/name@VERSION --from FILE"),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := script.ParseRef(a.withTenant(args[0]))
			if err != nil {
				return usage(err)
			}
			most, err := o.validate()
			if err != nil {
				return usage(err)
			}
			return a.replay(cmd.Context(), ref, &o, most)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.from, "from", nil, "a decision log; may be repeated; - for standard input")
	flags.StringVar(&o.against, "against", "", "compare with this version and not with the log: @VERSION, a manifest or a .lua file")
	flags.StringVar(&o.file, "file", "", "replay the version in this manifest or .lua file")
	flags.StringVar(&o.values, "values", "", "file with a JSON object of what kv has")
	flags.StringVar(&o.maxDiff, "max-diff", "", "exit with 10 if more decisions differ, or the log is damaged: a number, or a percentage of those compared")
	flags.BoolVar(&o.masked, "masked", false, "compare also records whose input is masked")
	flags.Int64Var(&o.limit, "limit", 0, "stop after this many records of the script; 0 for all")
	flags.IntVar(&o.show, "show", 20, "how many decisions that differ to print")
	flags.IntVar(&o.workers, "workers", 0, "how many calls run at once; 0 for one a processor")
	for _, file := range []string{"from", "against", "file", "values"} {
		must(cmd.MarkFlagFilename(file))
	}
	return cmd
}

// validate checks the flags, and returns the value of --max-diff.
func (o *replayOptions) validate() (maxDiff, error) {
	switch {
	case len(o.from) == 0:
		return maxDiff{}, script.Errorf(script.Invalid, "--from", "is missing: name a decision log, or - for standard input")
	case o.limit < 0:
		return maxDiff{}, script.Errorf(script.Invalid, "--limit", "%d is below 0", o.limit)
	case o.show < 0:
		return maxDiff{}, script.Errorf(script.Invalid, "--show", "%d is below 0", o.show)
	case o.workers < 0 || o.workers > maxWorkers:
		return maxDiff{}, script.Errorf(script.Invalid, "--workers", "%d is not between 0 and %d", o.workers, maxWorkers)
	}
	return parseMaxDiff(o.maxDiff)
}

const maxWorkers = 1024

// maxDiff is the number or percentage of decisions that may differ.
type maxDiff struct {
	set     bool
	most    float64
	percent bool // most is a percentage of the compared decisions
}

func parseMaxDiff(text string) (maxDiff, error) {
	if text == "" {
		return maxDiff{}, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	most, err := strconv.ParseFloat(number, 64)
	whole := most == math.Trunc(most)
	if err != nil || !(most >= 0 && !math.IsInf(most, 0)) || !percent && !whole || percent && most > 100 {
		return maxDiff{}, script.Errorf(script.Invalid, "--max-diff", "%.80q is neither a number of decisions, such as 5, nor a percentage, such as 0.1%%", text)
	}
	return maxDiff{set: true, most: most, percent: percent}, nil
}

// check returns an error if more decisions differ, if the log has damaged lines, or if nothing was compared.
func (m maxDiff) check(c *replay.Counts, text string) error {
	switch {
	case !m.set:
		return nil
	case c.Bad > 0:
		return &exitError{code: exitDiffers, err: fmt.Errorf("%s of the log cannot be replayed, so --max-diff says nothing: see the warnings, and pass whole files with records only", count(int(c.Bad), "line"))}
	case c.Compared() == 0:
		return &exitError{code: exitDiffers, err: errors.New("no decision was compared, so --max-diff says nothing: check the script's name and what the log has")}
	case m.percent && float64(c.Different)*100 > m.most*float64(c.Compared()), !m.percent && float64(c.Different) > m.most:
		return &exitError{code: exitDiffers, err: fmt.Errorf("%d of %d decisions differ, and --max-diff allows %s", c.Different, c.Compared(), text)}
	}
	return nil
}

func (a *app) replay(ctx context.Context, ref script.Ref, o *replayOptions, most maxDiff) error {
	values, err := readValues(o.values)
	if err != nil {
		return usage(err)
	}
	to, from, err := a.replayed(ctx, ref, o)
	if err != nil {
		return err
	}
	compiler := engines.Offline()
	for _, v := range []*replay.Version{to, from} {
		if v == nil {
			continue
		}
		if err := v.Compile(compiler); err != nil {
			return &exitError{code: exitRefused, err: fmt.Errorf("%s: %w", v.Name, err)}
		}
	}
	files := make([]replay.File, len(o.from))
	for i, name := range o.from {
		if files[i], err = a.decisionLog(name); err != nil {
			return usage(err)
		}
	}
	printer := newReplayPrinter(a, to, from, o.show)
	counts, err := replay.Run(ctx, &replay.Config{
		Script: ref.Name, To: to, From: from, Values: values, Masked: o.masked, Limit: o.limit, Workers: o.workers,
		Different: printer.different, Bad: printer.bad, Progress: printer.progress,
	}, files)
	if err := errors.Join(err, printer.end(counts)); err != nil {
		return err
	}
	return most.check(counts, o.maxDiff)
}

// decisionLog returns a file of --from.
func (a *app) decisionLog(name string) (replay.File, error) {
	if name == "-" {
		return replay.File{Name: "stdin", Open: func() (io.ReadCloser, error) { return io.NopCloser(a.In), nil }}, nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return replay.File{}, script.Errorf(script.Invalid, "--from", "%w", err)
	case info.IsDir():
		return replay.File{}, script.Errorf(script.Invalid, "--from", "%s is a folder: name its files", name)
	}
	return replay.File{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }}, nil
}

// maxValuesBytes is the largest file of --values.
const maxValuesBytes = 64 << 20

// readValues reads the contents of keys from the file of --values.
func readValues(file string) (map[string][]byte, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--values", "%w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxValuesBytes+1))
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--values", "%w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil || len(data) > maxValuesBytes {
		return nil, script.Errorf(script.Invalid, "--values", `%s is not a JSON object of at most %s: want {"KEY": CONTENT, …}`, file, byteSize(maxValuesBytes))
	}
	values := make(map[string][]byte, len(members))
	for key, content := range members {
		var text string
		if json.Unmarshal(content, &text) == nil && string(content) != "null" {
			content = json.RawMessage(text)
		}
		values[key] = content
	}
	return values, nil
}

// replayed returns the version to replay, and the version of --against, or nil.
func (a *app) replayed(ctx context.Context, ref script.Ref, o *replayOptions) (to, from *replay.Version, err error) {
	s := &replaySources{app: a, ref: ref}
	if o.file == "" {
		to, err = s.published(ctx, ref.Version)
	} else {
		to, err = s.file(ctx, "--file", o.file)
	}
	if err != nil || o.against == "" {
		return to, nil, err
	}
	from, err = s.against(ctx, o.against)
	return to, from, err
}

// replaySources reads versions of one script.
type replaySources struct {
	app    *app
	ref    script.Ref
	limits *script.Limits // of the tenant; nil before the first read
}

// against returns the version of --against.
func (s *replaySources) against(ctx context.Context, text string) (*replay.Version, error) {
	number, isVersion := strings.CutPrefix(strings.TrimPrefix(text, s.ref.Name.String()), "@")
	if !isVersion {
		return s.file(ctx, "--against", text)
	}
	other, err := script.ParseRef(s.ref.Name.String() + "@" + number)
	if err != nil {
		return nil, usage(script.Errorf(script.Invalid, "--against", "%.80q is not a version: want @N with N ≥ 1, or a file", text))
	}
	return s.published(ctx, other.Version)
}

// published returns a version from the registry; 0 is the active one.
func (s *replaySources) published(ctx context.Context, number uint64) (*replay.Version, error) {
	client, err := s.app.connect()
	if err != nil {
		return nil, err
	}
	ref := script.Ref{Name: s.ref.Name, Version: number}
	edition, err := client.Source(ctx, ref)
	if err != nil {
		return nil, about(ref.String(), err)
	}
	if s.limits == nil {
		tenant, err := client.Tenant(ctx, ref.Name.Tenant)
		if err != nil {
			s.app.warn(fmt.Sprintf("the limits of tenant %s are not known, and do not apply: %v", ref.Name.Tenant, err))
		}
		s.limits = &tenant.Settings.Limits
	}
	edition.Spec.Limits = edition.Spec.Limits.OrDefaults().AtMost(*s.limits)
	return &replay.Version{Name: fmt.Sprintf("%s@%d", ref.Name, edition.Number), Edition: edition}, nil
}

// file returns the version in a file.
func (s *replaySources) file(ctx context.Context, flag, path string) (*replay.Version, error) {
	if filepath.Ext(path) == ".lua" {
		source, err := manifest.ReadFile(path)
		if err != nil {
			return nil, usage(script.Errorf(script.Invalid, flag, "%w", err))
		}
		v, err := s.published(ctx, s.ref.Version)
		if err != nil {
			return nil, err
		}
		v.Name, v.Source, v.Digest = path, source, script.DigestOf(source)
		return v, s.resolve(ctx, v)
	}
	if flag == "--file" && s.ref.Version != 0 {
		return nil, usage(script.Errorf(script.Invalid, flag, "a manifest is a version of its own: leave out @%d", s.ref.Version))
	}
	if !manifest.IsManifestFile(path) {
		return nil, usage(script.Errorf(script.Invalid, flag, "%.200q is neither @VERSION nor a file: want one of *.yaml, *.yml, *.json and *.lua", path))
	}
	manifests, err := manifest.Load(path)
	if err != nil {
		return nil, usage(err)
	}
	for i := range manifests {
		m := &manifests[i]
		if m.Name != s.ref.Name {
			continue
		}
		libraries := offline.Libraries{Elsewhere: func(name script.Name) (script.Library, error) { return s.app.libraryOf(ctx, name) }}
		if err := libraries.Resolve(m); err != nil {
			return nil, usage(err)
		}
		v := &replay.Version{Name: path, Edition: script.Edition{Spec: m.Settings.Spec, Source: m.Source}}
		v.Digest, v.Engine, v.Entrypoint = script.DigestOf(m.Source), m.Engine, m.Entrypoint
		return v, nil
	}
	return nil, usage(script.Errorf(script.Invalid, flag, "%s has no manifest of %s", path, s.ref.Name))
}

// resolve gives the source of a file the libraries that it requires: those of the version whose settings it runs with,
// and others of the registry.
func (s *replaySources) resolve(ctx context.Context, v *replay.Version) error {
	m := manifest.Manifest{Name: s.ref.Name, Source: v.Source, SourceFile: v.Name, File: v.Name, Line: 1, Engine: v.Engine, Entrypoint: v.Entrypoint}
	libraries := offline.Libraries{Unread: true, Elsewhere: func(name script.Name) (script.Library, error) {
		for _, l := range v.Spec.Libraries {
			if l.Name == name {
				return l, nil
			}
		}
		return s.app.libraryOf(ctx, name)
	}}
	if err := libraries.Resolve(&m); err != nil {
		return err
	}
	v.Spec.Libraries = m.Settings.Libraries
	return nil
}
