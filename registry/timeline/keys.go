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

// Keys describes the keys of the registry by their owner or purpose.
type Keys map[string]string

// maxStateBytes bounds a State with the keys. A larger one has their digest instead.
const maxStateBytes = 2 << 10

// state returns the State of a record of the keys.
func (k Keys) state() string {
	text, _ := json.Marshal(map[string]string(k)) // sorted by name
	if len(text) > maxStateBytes {
		return script.DigestOf(text).String()
	}
	return string(text)
}

// KeyRecord stores a record when keys differ from the last record. It is for one goroutine.
type KeyRecord struct {
	recorder *Recorder
	what     string
	read     bool
	state    string // of the last record; "" if there is none
	keys     Keys   // of the last record; nil if it has only a digest
}

// NewKeyRecord returns a KeyRecord for the kind of keys with this name.
func NewKeyRecord(r *Recorder, what string) *KeyRecord { return &KeyRecord{recorder: r, what: what} }

// Look stores a record if now differs from the last record. A registry that never had keys needs no record.
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

// load reads the last record.
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

// changes returns the names of the keys that differ from the last record, and a text with the changes.
func (k *KeyRecord) changes(now Keys) (names []string, text string) {
	if k.keys == nil && k.state != "" {
		return nil, "they are not those on record, which are too many to compare"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(union(k.keys, now))) {
		before, after := orNone(k.keys[name]), orNone(now[name])
		switch {
		case k.state == "":
			parts = append(parts, fmt.Sprintf("%s: %s (none was on record)", name, after))
		case before == after:
			continue
		default:
			parts = append(parts, fmt.Sprintf("%s: %s, before %s", name, after, before))
		}
		names = append(names, name)
	}
	return names, strings.Join(parts, "; ")
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
