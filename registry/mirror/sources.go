package mirror

import "github.com/scriptorium-dev/scriptorium/script"

// holders says, for each source or content of a value, of which tenants' objects retain
// it, and how often.
type holders map[script.Digest]holder

// holder is the first tenant, as most sources have one, and the others.
type holder struct {
	tenant *tenant
	count  int
	others map[*tenant]int
}

func (h holders) add(digest script.Digest, t *tenant) {
	had, ok := h[digest]
	switch {
	case !ok:
		had = holder{tenant: t, count: 1}
	case had.tenant == t:
		had.count++
	default:
		if had.others == nil {
			had.others = map[*tenant]int{}
		}
		had.others[t]++
	}
	h[digest] = had
}

func (h holders) remove(digest script.Digest, t *tenant) {
	had, ok := h[digest]
	if !ok {
		return
	}
	if had.tenant != t {
		if had.others[t]--; had.others[t] <= 0 {
			delete(had.others, t)
		}
		return
	}
	if had.count--; had.count > 0 {
		h[digest] = had
		return
	}
	for other, count := range had.others { // any of them comes first now
		delete(had.others, other)
		h[digest] = holder{tenant: other, count: count, others: had.others}
		return
	}
	delete(h, digest)
}

// Readable returns those of the sources, and contents of values, that an object of a
// tenant that may be read retains. The others are hidden if an object of another tenant
// retains them, and unknown if none does.
func (m *Mirror) Readable(digests []script.Digest, may func(tenant string) bool) (readable []script.Digest, unknown int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, digest := range digests {
		h, ok := m.image.holders[digest]
		if !ok {
			unknown++
			continue
		}
		if h.readable(may) {
			readable = append(readable, digest)
		}
	}
	return readable, unknown
}

func (h holder) readable(may func(tenant string) bool) bool {
	if may(h.tenant.name) {
		return true
	}
	for t := range h.others {
		if may(t.name) {
			return true
		}
	}
	return false
}
