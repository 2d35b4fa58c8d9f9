package dev

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// settle is how long a folder must be quiet before it is read: an editor saves
// in several steps.
const settle = 20 * time.Millisecond

// folder keeps a registry's scripts as the manifests of a folder say. What it
// applied is remembered on disk, so that a restart does not undo a pin that was
// set by hand, and a manifest removed in the meantime removes its script.
type folder struct {
	path   string
	memory string // the file that remembers what was applied
	client *registryclient.Client
	log    *slog.Logger
	say    func(error) // tells a person of a manifest that was not applied

	applied map[string]applied // by tenant/name
	said    map[string]bool    // faults of the last pass
}

// applied is what a folder last made of one script.
type applied struct {
	File        string `json:"file"`
	Fingerprint string `json:"fingerprint"`
}

func openFolder(path, memory string, client *registryclient.Client, log *slog.Logger, say func(error)) (*folder, error) {
	f := &folder{path: path, memory: memory, client: client, log: log, say: say, applied: map[string]applied{}}
	data, err := os.ReadFile(memory)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &f.applied); err != nil {
		return nil, fmt.Errorf("%s cannot be read, remove it to have every manifest applied again: %w", memory, err)
	}
	return f, nil
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

// apply makes the registry what the folder says, as far as it can, and returns
// the folders that sources come from.
func (f *folder) apply(ctx context.Context) (sources []string) {
	manifests, err := manifest.Load(f.path)
	faults, broken := flatten(err)
	present := map[string]bool{}
	for _, m := range manifests {
		present[m.Name.String()] = true
		if m.SourceFile != "" {
			sources = append(sources, filepath.Dir(m.SourceFile))
		}
		if err := f.publish(ctx, &m); err != nil {
			faults = append(faults, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.applied)) {
		// A file with a fault may still be meant to hold the script.
		if present[name] || broken[f.applied[name].File] || broken[f.path] {
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

func (f *folder) publish(ctx context.Context, m *manifest.Manifest) error {
	request := m.Publish()
	wanted, err := fingerprint(request)
	if err != nil {
		return err
	}
	name := m.Name.String()
	if f.applied[name].Fingerprint == wanted {
		return nil
	}
	request.Author = "dev"
	request.Note = "from " + filepath.Base(m.File)
	if _, err := f.client.Publish(ctx, request); err != nil {
		if located := m.Locate(err); located != err { //nolint:errorlint // the same error, not one like it
			return located
		}
		return fmt.Errorf("%s: %s: %w", m.File, name, err)
	}
	return f.remember(name, applied{File: m.File, Fingerprint: wanted})
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
	return f.remember(name, applied{})
}

// remember records what was made of a script; nothing, when it was removed.
func (f *folder) remember(name string, a applied) error {
	if a == (applied{}) {
		delete(f.applied, name)
	} else {
		f.applied[name] = a
	}
	data, err := json.MarshalIndent(f.applied, "", "  ")
	if err != nil {
		return err
	}
	temporary := f.memory + ".tmp"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, f.memory)
}

// tell says each fault once, until it is gone.
func (f *folder) tell(faults []error) {
	said := map[string]bool{}
	for _, err := range faults {
		text := err.Error()
		if !f.said[text] && !said[text] {
			f.say(err)
		}
		said[text] = true
	}
	f.said = said
}

// fingerprint tells requests apart that ask for different things.
func fingerprint(request registryclient.PublishRequest) (string, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
