package httpsock

import (
	"io"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// LongCall is the time from which on a client that goes away ends its call.
const LongCall = longCall

// ReadBody appends a body to b as a call does whose caller has the budget.
func ReadBody(of *budget.Budget, b []byte, body io.Reader) ([]byte, error) {
	var x exchange
	of.Open(&x.claim, "caller", &x)
	defer x.claim.Close()
	return x.read(b, body)
}
