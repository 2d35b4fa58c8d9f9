package cache

import (
	"github.com/cespare/xxhash/v2"

	"github.com/scriptorium-dev/scriptorium/script"
)

// byKey says which calls run a candidate because of their keys.
type byKey struct {
	source    script.KeySource
	seed      uint64 // from Candidate.KeySalt
	threshold uint32
}

// KeyBucket places the key among all, always at the same place for the same salt: the upper 32 bits of
// its XXH64, whose seed is the XXH64 of the salt.
func KeyBucket(salt, key string) uint32 { return keyBucket(xxhash.Sum64String(salt), key) }

// keyBucket allocates nothing.
func keyBucket(seed uint64, key string) uint32 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.WriteString(key) // it has no errors
	return uint32(d.Sum64() >> 32)
}

// splitByKey has calls with keys below the threshold run the candidate of r, which live is made of.
func (r *Release) splitByKey(of *script.Release, threshold uint32) {
	c := of.Candidate
	r.keys = byKey{source: of.Plan().Key, seed: xxhash.Sum64String(c.KeySalt(of.Name)), threshold: threshold}
	r.split(of)
}

// split makes Split.
func (r *Release) split(of *script.Release) {
	c := of.Candidate
	split := newRelease(*of, c.Version, c.Spec)
	split.editions, split.Candidate = r.editions, r.Candidate // which are the same
	r.Split = split
}

// KeySource returns where the keys of requests come from that decide what calls run here; "" if calls
// name their keys, or if no keys decide.
func (r *Release) KeySource() script.KeySource { return r.keys.source }

// For returns the release with what a call with the key runs here, which is r or Split. "" is no key.
func (r *Release) For(key string) *Release {
	if r.Split == nil || r.Shadow != nil || key == "" || keyBucket(r.keys.seed, key) >= r.keys.threshold {
		return r
	}
	return r.Split
}

// OfCandidate returns the one of r and Split that counts the calls of the candidate, if one does.
func (r *Release) OfCandidate() *Release {
	if r.Split != nil {
		return r.Split
	}
	return r
}

// Besides are the calls of the active version, if the candidate runs for a part of the calls here and
// the versions are compared; nil otherwise.
func (r *Release) Besides() *StepCounts {
	if r.Split == nil {
		return nil
	}
	return r.StepCalls
}

// Widest returns the limits on time and results that hold for all calls here.
func (r *Release) Widest() script.Limits {
	limits := r.Limits
	if r.Split != nil && r.Shadow == nil {
		limits.Timeout = max(limits.Timeout, r.Split.Limits.Timeout)
		limits.ResultBytes = max(limits.ResultBytes, r.Split.Limits.ResultBytes)
	}
	return limits
}

// running returns the one of r and Split that runs the version with the number; nil if none does.
func (r *Release) running(number uint64) *Release {
	switch {
	case r == nil:
		return nil
	case r.Runs.Number == number:
		return r
	case r.Split != nil && r.Split.Runs.Number == number:
		return r.Split
	}
	return nil
}
