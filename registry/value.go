package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// PutValue asks for a key of a tenant's own data to have the content. It takes the
// role publish.
type PutValue struct {
	Key     script.ValueKey
	Content []byte // at most script.MaxValueBytes
	Author  string // as in Write
	Note    string // as in Write
	// ExpectedRevision, if not 0, is the revision that the value must still have; script.Absent: there must be none.
	ExpectedRevision script.Revision
	By               access.Identity
}

// DeleteValue asks for a key to be removed. It needs the role publish.
type DeleteValue struct {
	Key              script.ValueKey
	Author, Note     string
	ExpectedRevision script.Revision
	By               access.Identity
}

// PutValue stores the content under the key, in one transaction with what the
// tenant's values have together. changed is false, and there is no revision, if the
// key has that content. It is a Limit error, with used and quota, if the tenant may
// not have so much, or so many.
func (r *Registry) PutValue(ctx context.Context, req PutValue) (v script.Value, changed bool, err error) {
	a := valueRequest{key: req.Key, author: req.Author, note: req.Note, expected: req.ExpectedRevision, by: req.By, change: script.ChangePut, content: req.Content}
	return r.writeValue(ctx, a)
}

// DeleteValue removes the key, and returns the tombstone.
func (r *Registry) DeleteValue(ctx context.Context, req DeleteValue) (script.Value, error) {
	a := valueRequest{key: req.Key, author: req.Author, note: req.Note, expected: req.ExpectedRevision, by: req.By, change: script.ChangeRemove}
	v, _, err := r.writeValue(ctx, a)
	return v, err
}

// valueRequest is a write of a value that was asked for.
type valueRequest struct {
	key      script.ValueKey
	author   string
	expected script.Revision
	by       access.Identity
	change   script.Change // put, rollback, import, repair or remove
	content  []byte
	version  uint64 // of a rollback; 0: as in RollbackValue
	note     string
	bySystem bool // the registry requests it, by its own rules
	keep     bool // do not replace a value that is there
	dry      bool // store nothing, and do not ask for the quota: what raises it is not stored either
}

func (a valueRequest) validate() error {
	if err := a.key.Validate(); err != nil {
		return err
	}
	if len(a.content) > script.MaxValueBytes {
		return script.Errorf(script.Invalid, "content", "has %d bytes: a value has at most %d (1 MiB)", len(a.content), script.MaxValueBytes)
	}
	if err := validateExpected(a.expected, a.change != script.ChangeRemove); err != nil {
		return err
	}
	if err := validateAuthor(a.author, a.note); err != nil || a.bySystem {
		return err
	}
	return a.by.Check(access.Publish, a.key.Tenant)
}

// valueAttempts bounds how often a write of a value is decided anew because others
// were faster. All writers of one tenant's values stand in each other's way; each
// attempt lets at least one through.
const valueAttempts = 256

func (r *Registry) writeValue(ctx context.Context, a valueRequest) (v script.Value, changed bool, err error) {
	var uses []quotaUse
	defer func() {
		r.onWrite(a.change, outcomeOf(decision{changed: changed}, a.dry, err))
		r.noteQuotas(a.key.Tenant, err, uses)
	}()
	if err := a.validate(); err != nil {
		return script.Value{}, false, err
	}
	counted := false
	for attempt := 1; ; attempt++ {
		data, err := r.store.DataUsage(ctx, a.key)
		if err != nil {
			return script.Value{}, false, err
		}
		commit, changed, err := r.prepareValue(ctx, a, data, &counted)
		if err != nil || !changed || a.dry {
			return commit.Value, changed, err
		}
		commit.Value.Revision, err = r.store.CommitValue(ctx, commit)
		if script.KindOf(err) == script.Conflict && attempt < valueAttempts {
			continue
		}
		if err != nil {
			return script.Value{}, false, err
		}
		uses = usesOf(commit.Usage, data.Tenant.Settings)
		return commit.Value, true, nil
	}
}

// prepareValue returns the commit of the write, if it changes anything: it may be made, and counts for the
// rates of the tenant unless it is counted already.
func (r *Registry) prepareValue(ctx context.Context, a valueRequest, data DataUsage, counted *bool) (c ValueCommit, changed bool, err error) {
	now := r.now().UTC()
	c, changed, err = decideValue(data, a, now)
	if err == nil && changed && a.change != script.ChangeRepair && data.Freeze.CoversTenant(a.key.Tenant, now) {
		return ValueCommit{}, false, data.Freeze.Refusal(fmt.Sprintf("%s the value %s", a.change, a.key))
	}
	if err != nil || !changed || a.dry {
		return c, changed, err
	}
	if a.change == script.ChangeRollback {
		if c.Content, err = r.retainedContent(ctx, c.Value); err != nil {
			return ValueCommit{}, false, err
		}
	}
	if !*counted {
		if err := r.countValue(ctx, a, len(c.Content), data.Tenant.Settings); err != nil {
			return ValueCommit{}, false, err
		}
		*counted = true
	}
	if data.Usage.Older < 0 { // counted for what the rates let through alone: it reads all histories
		if data.Usage.Older, err = r.store.OlderBytes(ctx, a.key.Tenant); err != nil {
			return ValueCommit{}, false, err
		}
		content := c.Content
		c, _, _ = decideValue(data, a, now) // as before, but for what the histories take
		c.Content = content
	}
	return c, true, nil
}

// countValue counts the write for its tenant's rates. Imports wait for them. A rollback's content is
// there, and is sent to the store all the same.
func (r *Registry) countValue(ctx context.Context, a valueRequest, size int, settings script.TenantSettings) error {
	if a.change == script.ChangeRemove || a.change == script.ChangeRollback { // which store no content
		return r.rates.take(a.key.Tenant, settings, size)
	}
	if err := r.space(); err != nil {
		return err
	}
	if a.change == script.ChangeImport {
		return r.rates.wait(ctx, a.key.Tenant, settings, size)
	}
	return r.rates.take(a.key.Tenant, settings, size)
}

// decideValue is what the write comes to. Without a change the commit's value is the
// one that was there.
func decideValue(data DataUsage, a valueRequest, now time.Time) (c ValueCommit, changed bool, err error) {
	cur, lost := data.Value, data.UnreadableValue != nil
	isLive := cur.Revision != 0 && !cur.Deleted
	if err := meet(a.expected, cur.Revision, isLive, a.key.String(), "read it again and decide again"); err != nil {
		return c, false, err
	}
	history := knownHistory(data, a.key)
	usage := data.Usage
	if isLive {
		cur.Version = history.present()
		usage.Bytes -= int64(cur.Size)
		usage.Values--
	}
	next, changed, err := a.replace(cur, lost, history)
	if err != nil || !changed {
		return ValueCommit{Value: cur}, false, err
	}
	next.Author, next.ChangedAt = Attribution(a.by, a.author), now
	if !next.Deleted {
		usage.Bytes += int64(next.Size)
		usage.Values++
		if err := mayHold(data, usage, a.key.Tenant); err != nil && !a.dry {
			return c, false, err
		}
	}
	before := uint64(0)
	if isLive {
		before = cur.Version
	}
	history.add(a, &next)
	usage.Older = history.retain(data)
	return ValueCommit{
		Guard: cur.Revision, Value: next, Before: before, Content: a.content, History: &history.ValueHistory, Usage: usage, FreezeGuard: data.Freeze.Revision,
		Audit: script.AuditEntry{
			Time: now, Name: script.Name{Tenant: a.key.Tenant}, Key: a.key.Key, Change: a.change, Version: history.present(),
			Digest: next.Digest, Author: a.author, Identity: a.by.Name, Peer: a.by.Peer, Note: a.note,
		},
	}, true, nil
}

// replace returns what takes the place of cur, whose record may be lost. changed is false if cur
// stays.
func (a valueRequest) replace(cur script.Value, lost bool, h pastOfValue) (next script.Value, changed bool, err error) {
	isLive := cur.Revision != 0 && !cur.Deleted
	next.Key = a.key
	switch a.change {
	case script.ChangeRemove:
		if !isLive && !lost {
			return next, false, noValue(a.key)
		}
		next.Deleted, next.Version = true, h.Latest
		return next, true, nil
	case script.ChangeRollback:
		target, err := h.goBackTo(a.version, isLive || lost)
		next.Digest, next.Size, next.Version = target.Digest, target.Size, target.Version
		return next, lost || !isLive || next.Version != cur.Version, err
	}
	next.Digest, next.Size = script.DigestOf(a.content), len(a.content)
	repair := a.change == script.ChangeRepair
	if isLive && !lost && next.Digest == cur.Digest && !repair {
		return next, false, nil
	}
	if isLive && !lost && a.keep {
		return next, false, script.Errorf(script.Conflict, "key", "%s is there, and differs from the archive's: import with overwrite to replace it", a.key)
	}
	next.Version = h.numberOf(next.Digest, lost || repair)
	return next, true, nil
}

// mayHold refuses what is more than the tenant may have. What makes less of it is
// never refused: the quota may have been lowered since.
func mayHold(data DataUsage, next Usage, tenant string) error {
	if u := data.UnreadableTenant; u != nil && (next.Values > data.Usage.Values || next.Bytes > data.Usage.Bytes) {
		return unreadableSettings(u)
	}
	quota := data.Tenant.Settings.OrDefaults().ValueBytes
	if next.Values > script.MaxValues && next.Values > data.Usage.Values {
		return overQuota(script.Limit, "key", quotaUse{quotaValues, int64(data.Usage.Values), script.MaxValues}, "%s has %d values, which is the most that a tenant may have: delete some first", tenant, data.Usage.Values)
	}
	if next.Bytes > quota && next.Bytes > data.Usage.Bytes {
		return overQuota(script.Limit, "content", quotaUse{quotaValueBytes, data.Usage.Bytes, quota}, "%s uses %d of %d bytes, and would use %d: delete values, or have an administrator raise it: scriptctl tenant set %s --values SIZE",
			tenant, data.Usage.Bytes, quota, next.Bytes, tenant)
	}
	return nil
}

// usesOf is what a tenant has of the quotas of values.
func usesOf(next Usage, settings script.TenantSettings) []quotaUse {
	return []quotaUse{{quotaValues, int64(next.Values), script.MaxValues}, {quotaValueBytes, next.Bytes, settings.OrDefaults().ValueBytes}}
}

func noValue(key script.ValueKey) error {
	return script.Errorf(script.NotFound, "key", "there is no value %s", key)
}

// ValuePage is a page of a tenant's values.
type ValuePage struct {
	Values     []script.Value
	Unreadable []Unreadable // values whose records cannot be read, in the same order
	// Used is how many bytes all of the tenant's values have together, and Quota how many
	// they may have.
	Used, Quota int64
}

// Values returns a tenant's values whose keys begin with the prefix, in the order of
// the keys byte by byte, those after the key `after` alone, and limit at most. It takes the
// role read.
func (r *Registry) Values(ctx context.Context, by access.Identity, tenant, prefix, after string, limit int) (page ValuePage, err error) {
	if err := script.ValidateLabel("tenant", tenant); err != nil {
		return ValuePage{}, err
	}
	if err := by.Check(access.Read, tenant); err != nil {
		return ValuePage{}, err
	}
	if len(prefix) > script.MaxValueKeyLen {
		return ValuePage{}, script.Errorf(script.Invalid, "prefix", "has %d bytes, and no key has more than %d", len(prefix), script.MaxValueKeyLen)
	}
	if after != "" {
		if err := (script.ValueKey{Tenant: tenant, Key: after}).Validate(); err != nil {
			return ValuePage{}, script.Errorf(script.Invalid, "page_token", "%.80q does not come from a page of this list", after)
		}
	}
	if err := validateLimit(limit); err != nil {
		return ValuePage{}, err
	}
	data, err := r.store.DataUsage(ctx, script.ValueKey{Tenant: tenant})
	if err != nil {
		return ValuePage{}, err
	}
	page.Values, page.Unreadable, err = r.store.Values(ctx, tenant, prefix, after, limit)
	if err == nil {
		err = r.number(ctx, page.Values)
	}
	page.Used, page.Quota = data.Usage.Bytes, data.Tenant.Settings.OrDefaults().ValueBytes
	return page, err
}

// validateLimit accepts what a page may have, and one more, which tells whether there
// is another page.
func validateLimit(limit int) error {
	if limit < 1 || limit > MaxPageSize+1 {
		return script.Errorf(script.Invalid, "page_size", "%d is not between 1 and %d", limit, MaxPageSize+1)
	}
	return nil
}
