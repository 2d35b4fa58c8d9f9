package timeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Keys says which keys the registry has, by whose they are or what they are for.
type Keys map[string]string

// maxStateBytes is how large a State may be that has the keys; of more it has their digest.
const maxStateBytes = 2 << 10

// state is what a record keeps of the keys.
func (k Keys) state() string {
	text, _ := json.Marshal(map[string]string(k)) // in the order of the names
	if len(text) > maxStateBytes {
		return script.DigestOf(text).String()
	}
	return string(text)
}

// KeyRecord records keys when they are others than those that are on record. It is for one goroutine.
type KeyRecord struct {
	recorder *Recorder
	what     string
	read     bool
	state    string // on record; "" if none is
	keys     Keys   // that is of; nil if that is not known
}

// NewKeyRecord returns a record of the keys that are called so.
func NewKeyRecord(r *Recorder, what string) *KeyRecord { return &KeyRecord{recorder: r, what: what} }

// Look records the keys that there are now, if they are news. Those of a registry that never had any
// are none.
func (k *KeyRecord) Look(ctx context.Context, now Keys) error {
	if err := k.load(ctx); err != nil {
		return err
	}
	state := now.state()
	if state == k.state || k.state == "" && len(now) == 0 {
		return nil
	}
	names, text := k.changes(now)
	record := Record{State: state, Event: script.Event{Type: script.EventKey, What: k.what, Text: text}}
	record.Subjects = names[:min(len(names), script.MaxEventSubjects)]
	if len(names) > len(record.Subjects) {
		record.Count = uint64(len(names))
	}
	if err := k.recorder.Put(ctx, record); err != nil {
		return err
	}
	k.state, k.keys = state, maps.Clone(now)
	return nil
}

// load reads what is on record.
func (k *KeyRecord) load(ctx context.Context) error {
	if k.read {
		return nil
	}
	q := Query[Record]{Limit: 1, Wants: func(r *Record) bool { return r.Type == script.EventKey && r.What == k.what }}
	for {
		page, err := k.recorder.cfg.Store.Records(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			k.state = page.Items[0].Of.State
			if json.Unmarshal([]byte(k.state), &k.keys) != nil {
				k.keys = nil // the state is a digest
			}
		}
		if k.read = len(page.Items) > 0 || page.Next == ""; k.read {
			return nil
		}
		q.After = page.Next
	}
}

// changes says which keys differ from those on record.
func (k *KeyRecord) changes(now Keys) (names []string, text string) {
	if k.keys == nil && k.state != "" {
		return nil, "they are not those on record, which are too many to compare"
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(union(k.keys, now))) {
		before, after := orNone(k.keys[name]), orNone(now[name])
		switch {
		case k.state == "":
			said = append(said, fmt.Sprintf("%s: %s (none was on record)", name, after))
		case before == after:
			continue
		default:
			said = append(said, fmt.Sprintf("%s: %s, before %s", name, after, before))
		}
		names = append(names, name)
	}
	return names, strings.Join(said, "; ")
}

func union(a, b Keys) Keys {
	all := maps.Clone(b)
	if all == nil {
		all = Keys{}
	}
	maps.Copy(all, a)
	return all
}

func orNone(keys string) string {
	if keys == "" {
		return "none"
	}
	return keys
}
