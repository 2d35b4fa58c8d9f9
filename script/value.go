package script

import (
	"strconv"
	"strings"
	"time"
)

// Value is a key of a tenant's own data, which its scripts read. The content is
// known by its digest, and travels as sources do.
type Value struct {
	Key       ValueKey
	Revision  Revision // of the change that made the value what it is
	Digest    Digest   // of the content
	Size      int      // bytes of content
	Deleted   bool     // a tombstone: the key is gone
	Author    string
	ChangedAt time.Time
	// Version is the number of the content among the key's versions; of a tombstone the
	// highest number so far. It is 0 if a registry that knows no versions wrote the value, and
	// on agents, which do not need it.
	Version uint64
}

// ValueKey names a value of a tenant.
type ValueKey struct {
	Tenant string
	Key    string
}

// String returns "tenant/key".
func (k ValueKey) String() string { return k.Tenant + "/" + k.Key }

// Bounds of a tenant's values.
const (
	MaxValueBytes  = 1 << 20 // of one
	MaxValues      = 10_000  // of a tenant
	MaxValueKeyLen = 200     // bytes
)

// Validate returns an Invalid error that names the offending part, "tenant" or
// "key". A key is 1 to MaxValueKeyLen of A-Z, a-z, 0-9, '.', '_', '-' and '/', with
// something other than dots between the slashes.
func (k ValueKey) Validate() error {
	if err := ValidateLabel("tenant", k.Tenant); err != nil {
		return err
	}
	if k.Key == "" {
		return Errorf(Invalid, "key", "must not be empty")
	}
	if len(k.Key) > MaxValueKeyLen || strings.ContainsFunc(k.Key, notOfKey) {
		return Errorf(Invalid, "key", "%s is not a key: want 1 to %d of A-Z, a-z, 0-9, '.', '_', '-' and '/'", quote(k.Key), MaxValueKeyLen)
	}
	for part := range strings.SplitSeq(k.Key, "/") {
		if strings.Trim(part, ".") == "" {
			return Errorf(Invalid, "key", "%s is not a key: between slashes there must be something other than dots", quote(k.Key))
		}
	}
	return nil
}

func notOfKey(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._-/", r)
}

// ParseValueKey parses "tenant/key"; the key may have slashes of its own.
func ParseValueKey(s string) (ValueKey, error) {
	tenant, key, ok := strings.Cut(s, "/")
	if !ok {
		return ValueKey{}, Errorf(Invalid, "key", "%s is not a value's name: want tenant/key", quote(s))
	}
	k := ValueKey{Tenant: tenant, Key: key}
	if err := k.Validate(); err != nil {
		return ValueKey{}, err
	}
	return k, nil
}

// ParseValueRef parses "tenant/key" or "tenant/key@7"; without a version it is 0.
func ParseValueRef(s string) (k ValueKey, version uint64, err error) {
	base, number, pinned := strings.Cut(s, "@") // which no key has
	if k, err = ParseValueKey(base); err != nil || !pinned {
		return k, 0, err
	}
	version, err = strconv.ParseUint(number, 10, 63)
	if err != nil || version == 0 || number[0] == '0' || number[0] == '+' {
		return ValueKey{}, 0, Errorf(Invalid, "version", "%s is not a version: want tenant/key@N with N ≥ 1", quote(s))
	}
	return k, version, nil
}
