package console

import (
	"crypto/rand"
	"crypto/subtle"
	"strings"
	"sync"
)

// code is what whoever runs the console signs in with. It is good once: then it is replaced. It is safe for concurrent use.
type code struct {
	announce func(string) // nil: there are no codes

	mu  sync.Mutex
	now string
}

func newCode(announce func(string)) *code {
	c := &code{announce: announce}
	if announce != nil {
		c.replace()
	}
	return c
}

// replace makes another code, of 40 bits that a person can type: K7QM-2XHD.
func (c *code) replace() {
	text := rand.Text() // of the alphabet of Base32, which has no 0, 1 and 8
	c.now = text[:8]
	c.announce(text[:4] + "-" + text[4:8])
}

// redeem reports whether the code is right. Case, spaces and dashes do not count. A code that is right is used up if use
// succeeds, which says what for.
func (c *code) redeem(typed string, use func() error) (right bool, err error) {
	typed = strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(typed))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.announce == nil || subtle.ConstantTimeCompare([]byte(typed), []byte(c.now)) != 1 {
		return false, nil
	}
	if err := use(); err != nil {
		return true, err
	}
	c.replace()
	return true, nil
}
