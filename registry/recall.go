package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Copies brings what agents keep of what the store has lost.
type Copies interface {
	// Recall asks some connected agents that follow the tenant for what they keep under the
	// keys: those of objects and, as wire.SourceKey has it, of sources; at most
	// wire.MaxRecall. It hands what comes to take, until take reports that nothing is missing
	// any more, or for some seconds. It returns how many agents it asked, and of how many;
	// another call asks others. It is Unavailable if no agent can be asked at all.
	Recall(ctx context.Context, tenant string, keys []string, take func(Copy) (done bool)) (asked, of int, err error)
}

// Copy is what an agent says to keep under a key.
type Copy struct {
	Agent, Key string
	Content    []byte // the envelope of an object's entry, or a source
	Problem    string // why the agent cannot send it; "" if it has
}

// recallRounds is how often Recall is asked for the same at most.
const recallRounds = 4

// lost is what agents are asked for.
type lost struct {
	key   string
	below script.Revision // the object is older than the record that cannot be read
	// at is the revision of the object's last change, as the history or the audit trail has
	// it; 0 if they do not know. Somebody with the password of an agent can send older
	// entries, which the registry has signed, too.
	at script.Revision

	object  *script.Object // that was found, or
	content []byte         // the source that was
	agent   string         // that had it
	refused error          // why the last other copy was not taken
	asked   int            // agents
	deleted bool           // the last change deleted it
}

// done reports whether no other copy can be better.
func (l *lost) done() bool { return l.content != nil || l.object != nil && l.at != 0 }

func (l *lost) found() bool { return l.content != nil || l.object != nil }

// take takes the copy if it is what was lost.
func (l *lost) take(r *Registry, fleet string, c Copy) error {
	if c.Problem != "" {
		return fmt.Errorf("%.200q", c.Problem)
	}
	if digest, ok := wire.ToSourceKey(l.key); ok {
		if got := script.DigestOf(c.Content); got != digest {
			return fmt.Errorf("it has the digest %s", got)
		}
		l.content, l.agent = append([]byte{}, c.Content...), c.Agent
		return nil
	}
	var e eventv1.Entry
	if _, err := r.trusted.Open(c.Content, &e); err != nil {
		id, _ := seal.Unpack(c.Content, &e)
		return fmt.Errorf("its key is %.80q, and this registry signs with %q: %w", id, r.trusted.KeyIDs(), err)
	}
	if e.GetFleet() != fleet {
		return fmt.Errorf("it is of the fleet %.80q", e.GetFleet())
	}
	o, known, err := wire.ToObject(e.GetObject())
	switch {
	case err != nil:
		return err
	case !known || o.Key() != l.key || o.Deleted():
		return fmt.Errorf("it is of %.200q", e.GetObject().GetKey())
	case o.Revision() >= l.below:
		return fmt.Errorf("its revision %d is not below that of the record", o.Revision())
	case l.at != 0 && o.Revision() != l.at:
		return fmt.Errorf("it is of revision %d, and the last change is of revision %d", o.Revision(), l.at)
	}
	if l.object == nil || o.Revision() > l.object.Revision() {
		l.object, l.agent = &o, c.Agent
	}
	return nil
}

// missing says why nothing was found.
func (l *lost) missing() string {
	switch {
	case l.deleted:
		return "it was deleted before"
	case l.refused != nil:
		return fmt.Sprintf("no copy could be taken from an agent: %v", l.refused)
	case l.asked == 0:
		return "no connected agent follows the tenant"
	}
	return fmt.Sprintf("none of %d agents that were asked has sent it", l.asked)
}

// recall asks agents for what the tenant has lost.
func (r *Registry) recall(ctx context.Context, fleet, tenant string, all []*lost) {
	for batch := range slices.Chunk(all, wire.MaxRecall) {
		for range recallRounds {
			left := slices.DeleteFunc(slices.Clone(batch), (*lost).found)
			if len(left) == 0 {
				break
			}
			byKey, keys := map[string]*lost{}, make([]string, len(left))
			for i, l := range left {
				byKey[l.key], keys[i] = l, l.key
			}
			asked, of, err := r.copies.Recall(ctx, tenant, keys, func(c Copy) (done bool) {
				l := byKey[c.Key]
				if l == nil || l.done() {
					return false
				}
				if err := l.take(r, fleet, c); err != nil {
					l.refused = fmt.Errorf("%s: %w", c.Agent, err)
				}
				return !slices.ContainsFunc(left, func(l *lost) bool { return !l.done() })
			})
			for _, l := range left {
				l.asked += asked
				if err != nil {
					l.refused = err
				}
			}
			if err != nil || asked == of {
				break
			}
		}
	}
}

// recall asks agents for the objects that the store has forgotten. What they have is the last
// that was known.
func (d *doctor) recall(ctx context.Context) error {
	tenants := map[string][]*lost{}
	for i := range d.unreadable {
		u := &d.unreadable[i]
		name, isScript := u.Script()
		if !d.req.FromAgents || u.Last != nil || !d.wants(u.TenantName(), name.Script) || !isScript && u.Kind() == script.Releases {
			continue
		}
		l := &lost{key: u.Key, below: u.Revision}
		if isScript {
			remains, err := d.registry.store.Remains(ctx, *u)
			if err != nil {
				return err
			}
			if remains.Current {
				l.at, l.deleted = remains.History[0].Revision, remains.History[0].Version == 0
			}
		}
		d.recalled[u.Key] = l
		tenants[u.TenantName()] = append(tenants[u.TenantName()], l)
	}
	if err := d.lastWrites(ctx); err != nil {
		return err
	}
	for tenant, all := range tenants {
		d.registry.recall(ctx, d.fleet, tenant, slices.DeleteFunc(all, func(l *lost) bool { return l.deleted }))
	}
	for i := range d.unreadable {
		if l := d.recalled[d.unreadable[i].Key]; l != nil && l.object != nil {
			d.unreadable[i].Last = l.object
		}
	}
	return ctx.Err()
}

// auditPage is how many entries of the audit trail are read at once.
const auditPage = 500

// auditSkew is how far the clocks of replicas may be apart: the trail is in their order.
const auditSkew = 10 * time.Minute

// lastWrites finds in the audit trail when the values and settings that agents are asked for were
// written last.
func (d *doctor) lastWrites(ctx context.Context) error {
	wanted := maps.Clone(d.recalled)
	maps.DeleteFunc(wanted, func(key string, _ *lost) bool { return strings.HasPrefix(key, string(script.Releases)+"/") })
	left, token, until := len(wanted), "", time.Time{}
	for len(wanted) > 0 {
		entries, next, err := d.registry.store.Audit(ctx, AuditFilter{Tenant: d.req.Tenant}, token, auditPage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if left == 0 && e.Time.Before(until) {
				return nil
			}
			key := string(script.Tenants) + "/" + e.Name.Tenant
			if e.Key != "" {
				key = string(script.Values) + "/" + e.Name.Tenant + "/" + e.Key
			}
			l := wanted[key]
			if l == nil || e.Name.Script != "" || e.Revision < l.at {
				continue
			}
			if l.at == 0 {
				left, until = left-1, e.Time.Add(-auditSkew)
			}
			l.at, l.deleted = e.Revision, e.Change == script.ChangeRemove
		}
		if token = next; token == "" {
			break
		}
	}
	return nil
}

// contents returns those of the sources that agents have.
func (d *doctor) contents(ctx context.Context, tenants map[string][]script.Digest) error {
	for tenant, digests := range tenants {
		all := make([]*lost, len(digests))
		for i, digest := range digests {
			all[i] = &lost{key: wire.SourceKey(digest)}
			d.recalled[all[i].key] = all[i]
		}
		d.registry.recall(ctx, d.fleet, tenant, all)
	}
	return ctx.Err()
}

// from says whose copy a repair takes; "" if it takes none.
func (d *doctor) from(key string) string {
	l := d.recalled[key]
	switch {
	case l == nil || !l.found():
		return ""
	case l.object != nil && l.at == 0:
		return fmt.Sprintf(", from the agent %s: it is the newest of the copies that came, and the registry does not know the last change", l.agent)
	}
	return ", from the agent " + l.agent
}

// otherwise returns what to do where the store has forgotten what was there, if agents do
// not help.
func (d *doctor) otherwise(key, remedy string) string {
	if l := d.recalled[key]; l != nil {
		return l.missing() + "; " + remedy
	}
	return "agents may have it: run scriptctl doctor --repair --from-agents; otherwise " + remedy
}
