package decision

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestThenIsOneAfterTheOther: what then makes of two changes has the effect of both, on any headers.
func TestThenIsOneAfterTheOther(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	name := func() string { return string(rune('a' + r.IntN(3))) }
	lines := func() (all []Header) {
		for range r.IntN(3) {
			all = append(all, Header{name(), fmt.Sprint(r.IntN(100))})
		}
		return all
	}
	changes := func() Changes {
		c := Changes{Set: lines(), Append: lines()}
		for range r.IntN(2) {
			c.Remove = append(c.Remove, name())
		}
		return c
	}
	for range 20_000 {
		headers := map[string][]string{}
		for _, h := range lines() {
			headers[h.Name] = append(headers[h.Name], h.Value)
		}
		before := maps.Clone(headers)
		one, two, three := changes(), changes(), changes()
		want := three.applied(two.applied(one.applied(lowered(headers))))
		got := one.then(two).then(three).applied(lowered(headers))
		if !reflect.DeepEqual(got, want) || !maps.EqualFunc(headers, before, slices.Equal) {
			t.Fatalf("seed %d: %v, then %v, then %v make %v of %v, want %v", seed, one, two, three, got, headers, want)
		}
	}
}
