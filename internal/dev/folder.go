package dev

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// settle is how long a folder must be quiet before it is read: an editor saves
// in several steps.
const settle = 20 * time.Millisecond

// folder keeps a registry's scripts as the manifests of a folder say. What it
// applied is remembered on disk, so that a restart does not undo a pin that was
// set by hand, and a manifest removed in the meantime removes its script.
type folder struct {
	path   string // absolute
	client *registryclient.Client
	log    *slog.Logger
	say    func(string)              // tells a person what was not applied, and what else was done
	step   func(done, manifests int) // hears how far a pass has come

	memory *journal
	said   map[string]bool // faults of the last pass
}

func openFolder(path, memory string, client *registryclient.Client, log *slog.Logger, say func(string)) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	j, err := openJournal(memory)
	if err != nil {
		return nil, err
	}
	return &folder{path: path, client: client, log: log, say: say, step: func(int, int) {}, memory: j}, nil
}

// watch applies the folder at each change of its files until ctx is done.
func (f *folder) watch(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", f.path, err)
	}
	defer func() { _ = watcher.Close() }()
	if err := watcher.Add(f.path); err != nil {
		return fmt.Errorf("watch %s: %w", f.path, err)
	}
	quiet := time.NewTimer(0) // a change since the first pass is not missed
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-watcher.Events:
			if ok && !event.Has(fsnotify.Chmod) {
				quiet.Reset(settle)
			}
		case err := <-watcher.Errors:
			f.log.Warn("watching the scripts folder", "path", f.path, "error", err)
			quiet.Reset(settle)
		case <-quiet.C:
			for _, dir := range f.apply(ctx) {
				if err := watcher.Add(dir); err != nil {
					f.log.Warn("watching a folder of sources", "path", dir, "error", err)
				}
			}
		}
	}
}

// start applies the folder for the first time.
func (f *folder) start(ctx context.Context, p *progress) {
	path := f.shorten(f.path)
	f.step = func(done, manifests int) {
		p.waitFor("publishing the %d manifests of %s: %d %% are done", manifests, path, done*10/manifests*10)
	}
	defer func() { f.step = func(int, int) {} }()
	before := maps.Clone(f.memory.applied)
	f.apply(ctx)
	for _, name := range slices.Sorted(maps.Keys(f.memory.applied)) {
		if from := f.memory.applied[name].File; filepath.Dir(from) != f.path {
			f.say(fmt.Sprintf("%s comes from %s: left as it is", name, from))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, still := f.memory.applied[name]; !still {
			f.say(fmt.Sprintf("%s deleted: its manifest %s is gone", name, before[name].File))
		}
	}
}

// apply makes the registry what the folder says, as far as it can, and returns
// the folders that sources come from.
func (f *folder) apply(ctx context.Context) (sources []string) {
	manifests, err := manifest.Load(f.path)
	faults, broken := flatten(err)
	live, err := f.live(ctx)
	if err != nil {
		f.tell(append(faults, err))
		return nil
	}
	present := map[string]bool{}
	libraries := offline.Libraries{Beside: manifests}
	for i, m := range manifest.InOrder(manifests) {
		if ctx.Err() != nil {
			return nil // it ends: what was not published is not at fault
		}
		f.step(i, len(manifests))
		name := m.Name.String()
		present[name] = true
		if m.SourceFile != "" {
			sources = append(sources, filepath.Dir(m.SourceFile))
		}
		_ = libraries.Resolve(&m) // the registry says what is wrong
		if err := f.publish(ctx, &m, live[name]); err != nil {
			faults = append(faults, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.memory.applied)) {
		file := f.memory.applied[name].File
		// Another folder's are not ours to remove, and a file with a fault may
		// still be meant to hold the script.
		if present[name] || filepath.Dir(file) != f.path || broken[file] || broken[f.path] {
			continue
		}
		if err := f.remove(ctx, name); err != nil {
			faults = append(faults, err)
		}
	}
	f.tell(faults)
	slices.Sort(sources)
	return slices.Compact(sources)
}

// live returns the names of the scripts that there are.
func (f *folder) live(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	for r, err := range f.client.List(ctx, "") {
		if _, unreadable := errors.AsType[*registryclient.Unreadable](err); unreadable {
			continue
		}
		if err != nil {
			return nil, err
		}
		names[r.Name.String()] = true
	}
	return names, nil
}

// flatten returns the single faults of a manifest.Load, and the files they are in.
func flatten(err error) (faults []error, broken map[string]bool) {
	broken = map[string]bool{}
	var walk func(error)
	walk = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				walk(e)
			}
			return
		}
		faults = append(faults, err)
		if e, ok := errors.AsType[*manifest.Error](err); ok {
			broken[e.File] = true
		}
	}
	if err != nil {
		walk(err)
	}
	return faults, broken
}

// publish makes the script what its manifest says, unless it was applied before
// and the script is still there.
func (f *folder) publish(ctx context.Context, m *manifest.Manifest, live bool) error {
	request := m.Publish()
	wanted, err := fingerprint(request, m.Settings.Libraries)
	if err != nil {
		return err
	}
	name := m.Name.String()
	if live && f.memory.applied[name] == (applied{File: m.File, Fingerprint: wanted}) {
		return nil
	}
	request.Author = "dev"
	request.Note = "from " + filepath.Base(m.File)
	published, err := f.client.Publish(ctx, request)
	if err != nil {
		if located := m.Locate(err); located != err { //nolint:errorlint // the same error, not one like it
			return located
		}
		return fmt.Errorf("%s: %s: %w", m.File, name, err)
	}
	if text := published.Release.HeldBack(); text != "" {
		f.say(fmt.Sprintf("%s v%d is stored; %s", name, published.Version.Number, text))
	}
	return f.memory.remember(name, applied{File: m.File, Fingerprint: wanted})
}

func (f *folder) remove(ctx context.Context, name string) error {
	n, err := script.ParseName(name)
	if err != nil {
		return err
	}
	_, err = f.client.Delete(ctx, n, registryclient.Write{Author: "dev", Note: "its manifest was removed"})
	if err != nil && script.KindOf(err) != script.NotFound {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return f.memory.remember(name, applied{})
}

// tell says each fault once, and when there is none any more.
func (f *folder) tell(faults []error) {
	said := map[string]bool{}
	for _, err := range faults {
		text := f.shorten(err.Error())
		if !f.said[text] && !said[text] {
			f.say(text)
		}
		said[text] = true
	}
	if len(f.said) > 0 && len(said) == 0 {
		f.say("every manifest is right again")
	}
	f.said = said
}

// shorten writes paths as seen from the current folder.
func (f *folder) shorten(text string) string {
	here, err := os.Getwd()
	if err != nil {
		return text
	}
	relative, err := filepath.Rel(here, f.path)
	if err != nil || len(relative) > len(f.path) {
		return text
	}
	return strings.ReplaceAll(text, f.path, relative)
}

// fingerprint tells requests apart that ask for different things.
func fingerprint(request registryclient.PublishRequest, libraries []script.Library) (string, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	if d := script.DigestOfLibraries(libraries); !d.IsZero() { // another library has the script published again
		data = append(data, d[:]...)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
