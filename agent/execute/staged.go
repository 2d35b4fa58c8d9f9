package execute

import (
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Contents of values that are staged for candidates. It does not wait for the network, and
// nobody changes what it returns. Its errors are of kind Unavailable.
type Contents interface {
	Staged(d script.Digest) ([]byte, error)
}

// staged is the Host of the calls of a candidate whose change set stages values: it has these in
// the place of the live ones, or besides them.
type staged struct {
	engine.Host
	set      *script.Membership
	contents Contents
}

// Value implements engine.Host.
func (s *staged) Value(tenant, key string) ([]byte, bool, error) {
	v, ok := s.set.Staged(key)
	if !ok {
		return s.Host.Value(tenant, key)
	}
	content, err := s.contents.Staged(v.Digest)
	return content, err == nil, err
}

// Keys implements engine.Host.
func (s *staged) Keys(tenant, prefix, after string, limit int) []string {
	if limit <= 0 {
		return nil
	}
	keys := s.Host.Keys(tenant, prefix, after, limit)
	for _, v := range s.set.Values {
		if v.Key <= after || !strings.HasPrefix(v.Key, prefix) {
			continue
		}
		if at, there := slices.BinarySearch(keys, v.Key); !there && at < limit {
			keys = slices.Insert(keys, at, v.Key)
		}
	}
	return keys[:min(len(keys), limit)]
}

// hostOf returns what a call of the version of the release uses of the agent. Only one of a
// candidate with staged values needs c for it, so that no other call pays for them.
func (x *Executor) hostOf(c *call, release *cache.Release, version uint64) engine.Host {
	set := release.Staged(version)
	if set == nil || x.host == nil {
		return x.host
	}
	c.staged = staged{Host: x.host, set: set, contents: x.contents}
	return &c.staged
}
