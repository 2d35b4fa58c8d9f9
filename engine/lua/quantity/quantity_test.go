package quantity

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestQuantities: sums of quantities are those of Kubernetes, and so is what is no quantity.
func TestQuantities(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	suffixes := []string{"", "", "m", "n", "u", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E2", "e-2", "K", "i", "mi", "e", "x"}
	text := func() string {
		s := fmt.Sprint(r.IntN([]int{10, 2000, 1 << 30}[r.IntN(3)]))
		if r.IntN(3) == 0 {
			s += "." + fmt.Sprint(r.IntN(5000))
		}
		if r.IntN(20) == 0 {
			s = []string{"-", "+", "."}[r.IntN(3)] + s
		}
		return s + suffixes[r.IntN(len(suffixes))]
	}
	huge := func(q *Quantity) bool { return q.at(min(q.exponent, 0)).BitLen() > 60+4*max(-q.exponent, 0) } // which Kubernetes bounds, mostly
	for range 20_000 {
		a, b := text(), text()
		theirs, err := resource.ParseQuantity(a)
		ours, ourErr := Parse(a)
		if (err == nil) != (ourErr == nil) {
			t.Fatalf("%s: %v here, %v there", a, ourErr, err)
		}
		if err != nil || huge(ours) {
			continue
		}
		if theirs.String() != ours.String() { // as text that is no longer the given one
			theirs.Add(resource.Quantity{})
			fresh := theirs.DeepCopy()
			fresh.Sub(resource.MustParse("0"))
			if fresh.String() != ours.String() {
				t.Fatalf("%s is %s here, %s there", a, ours, fresh.String())
			}
		}
		second, err := resource.ParseQuantity(b)
		if err != nil {
			continue
		}
		ourSecond, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if huge(ourSecond) {
			continue
		}
		if got, want := ours.Cmp(ourSecond), theirs.Cmp(second); got != want {
			t.Fatalf("%s and %s compare as %d here, %d there", a, b, got, want)
		}
		theirs.Add(second)
		ours.Add(ourSecond)
		if theirs.String() != ours.String() {
			t.Fatalf("%s + %s is %s here, %s there", a, b, ours, theirs.String())
		}
	}
	for _, text := range []string{"", "-", "1..2", "--1", "e3", "1e1000000", ".", "1e", "٣"} {
		if q, err := Parse(text); err == nil {
			t.Errorf("%q is %s", text, q)
		}
	}
}
