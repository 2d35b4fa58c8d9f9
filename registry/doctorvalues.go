package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (d *doctor) value(ctx context.Context, u *Unreadable, f *Finding) (func(context.Context) error, error) {
	if u.Last == nil {
		f.Remedy = d.otherwise(u.Key, "put it again (scriptctl kv put), or delete it (scriptctl kv delete)")
		return nil, nil
	}
	last := u.Last.Value
	a := valueRequest{key: last.Key, author: d.req.Author, expected: u.Revision, by: d.req.By, note: d.req.Note, change: script.ChangeRemove}
	if !last.Deleted {
		content, err := d.content(ctx, last)
		if err != nil {
			return nil, err
		}
		if content == nil {
			f.Remedy = "its content is lost: " + d.otherwise(wire.SourceKey(last.Digest), "put it again (scriptctl kv put), or delete it (scriptctl kv delete)")
			return nil, nil
		}
		a.change, a.content = script.ChangeRepair, content
	}
	f.Remedy = fmt.Sprintf("restore it as it was at revision %d%s", last.Revision, cmp.Or(d.from(u.Key), d.from(wire.SourceKey(last.Digest))))
	return func(ctx context.Context) error {
		_, _, err := d.registry.writeValue(ctx, a)
		return err
	}, nil
}

// content returns that of the value, of agents if the store does not have it; nil if it is
// lost.
func (d *doctor) content(ctx context.Context, v *script.Value) ([]byte, error) {
	found, err := d.registry.store.Sources(ctx, []script.Digest{v.Digest})
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && script.DigestOf(found[0].Content) == v.Digest {
		return append([]byte{}, found[0].Content...), nil
	}
	if !d.req.FromAgents {
		return nil, nil
	}
	err = d.contents(ctx, map[string][]script.Digest{v.Key.Tenant: {v.Digest}})
	l := d.recalled[wire.SourceKey(v.Digest)]
	content := l.content
	if content != nil {
		l.content = []byte{} // it is not kept for longer than its repair takes
	}
	return content, err
}

// historyPrefix begins the keys of values' histories.
const historyPrefix = "kvhistory/"

// lookAtHistories finds what the histories of values need besides the values, and those that
// cannot be read.
func (d *doctor) lookAtHistories(snapshot Snapshot) error {
	d.histories = nil
	for h, err := range snapshot.Histories {
		u, unreadable := errors.AsType[*Unreadable](err)
		if err != nil && !unreadable {
			return err
		}
		if unreadable {
			d.histories = append(d.histories, *u)
		}
		value := script.Object{Value: &script.Value{Key: h.Key}}
		if !d.wants(h.Key.Tenant, "") || d.isLost(value) { // nobody knows what it needs
			continue
		}
		for _, line := range h.Lines {
			keys, key := d.needed[line.Digest], historyPrefix+h.Key.String()
			if !line.Digest.IsZero() && !slices.Contains(keys, value.Key()) && !slices.Contains(keys, key) {
				d.needed[line.Digest] = append(keys, key)
			}
		}
	}
	return nil
}

// isLost reports whether the record of the object cannot be read.
func (d *doctor) isLost(o script.Object) bool {
	return slices.ContainsFunc(d.unreadable, func(u Unreadable) bool { return u.Key == o.Key() })
}

// valueHistories tells of histories of values that cannot be read. A repair is a change of the
// value that changes no more than its history.
func (d *doctor) valueHistories(ctx context.Context) error {
	for _, u := range d.histories {
		if !d.wants(u.TenantName(), "") {
			continue
		}
		f := Finding{Key: u.Key, Revision: u.Revision, Reason: u.Reason}
		key, err := script.ParseValueKey(strings.TrimPrefix(u.Key, historyPrefix))
		if err != nil {
			f.Remedy = "remove the key with etcdctl: no value can have this name"
			d.tell(f)
			continue
		}
		repair, err := d.valueHistory(ctx, key, &f)
		if err != nil {
			return err
		}
		if d.treat(ctx, f, repair); d.left {
			return nil
		}
	}
	return nil
}

func (d *doctor) valueHistory(ctx context.Context, key script.ValueKey, f *Finding) (func(context.Context) error, error) {
	data, err := d.registry.store.DataUsage(ctx, key)
	if err != nil {
		return nil, err
	}
	v, h := data.Value, knownHistory(data, key)
	if d.isLost(script.Object{Value: &script.Value{Key: key}}) {
		f.Remedy = "repair the value first"
		return nil, nil
	}
	if v.Revision == 0 || v.Deleted {
		f.Remedy = "nothing: the value is gone, and the registry removes its history within a day"
		return nil, nil
	}
	content, err := d.content(ctx, &v)
	if err != nil {
		return nil, err
	}
	if content == nil {
		f.Remedy = "put the value again (scriptctl kv put): its content is lost"
		return nil, nil
	}
	f.Remedy = fmt.Sprintf("restore it as it was: %s", h.kept())
	if len(data.History.Lines) == 0 {
		f.Remedy = fmt.Sprintf("begin it anew with version %d: the older versions are lost", h.present())
	}
	return func(ctx context.Context) error {
		_, _, err := d.registry.writeValue(ctx, valueRequest{
			key: key, author: d.req.Author, note: d.req.Note, by: d.req.By, expected: v.Revision, change: script.ChangeRepair, content: content,
		})
		return err
	}, nil
}
