package sim

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// rollbackValue returns a rollback of the value to a version that it may have had. What is
// acknowledged is that version, with its content.
func (w *world) rollbackValue(r *rand.Rand, key script.ValueKey) func(context.Context, *registry.Registry) (script.Revision, error) {
	req := registry.RollbackValue{Key: key, Version: uint64(1 + r.IntN(5)), Author: "writer", By: access.Everybody("sim")}
	return func(ctx context.Context, rules *registry.Registry) (script.Revision, error) {
		v, _, err := rules.RollbackValue(ctx, req)
		if err == nil && (v.Version != req.Version || !w.truth.objects.wasVersion(v)) {
			w.violate("%s was rolled back to version %d, and is version %d with the content %s", key, req.Version, v.Version, v.Digest)
		}
		return v.Revision, err
	}
}

// wasVersion reports whether the version of the value was ever committed with its content.
func (t *objectTruth) wasVersion(v script.Value) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.byKey[script.Object{Value: &v}.Key()] {
		if !o.Deleted() && o.Value.Version == v.Version && o.Value.Digest == v.Digest {
			return true
		}
	}
	return false
}

// verifyHistory finds out whether the history of a value is what was committed, and whether a
// number of a version has two contents.
func (t *truth) verifyHistory(h script.ValueHistory, key string) error {
	contents := map[uint64]script.Digest{}
	for _, line := range h.Lines {
		made, ok := t.objects.asOf(key, line.Revision)
		same := ok && made.Revision() == line.Revision && made.Deleted() == (line.Version == 0)
		if !same || !made.Deleted() && (made.Value.Version != line.Version || made.Value.Digest != line.Digest) {
			return fmt.Errorf("the history of %s has %s of version %d at revision %d, which was never committed so", key, line.Change, line.Version, line.Revision)
		}
		if line.Version == 0 {
			continue
		}
		if digest, had := contents[line.Version]; had && digest != line.Digest {
			return fmt.Errorf("version %d of %s has two contents", line.Version, key)
		}
		contents[line.Version] = line.Digest
		if line.Version > h.Latest {
			return fmt.Errorf("the history of %s has version %d, and says that %d is the latest", key, line.Version, h.Latest)
		}
	}
	return nil
}
