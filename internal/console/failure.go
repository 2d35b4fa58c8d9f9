package console

import (
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// errNoSession is the answer to a call without a session that is good.
var errNoSession = script.Errorf(script.Denied, "", "the session has ended, or there is none: sign in")

// failure is an error of the console, in the same form as the registry's errors.
func failure(err error) *connect.Error {
	code := connect.Code(0)
	if errors.Is(err, errNoSession) {
		code = connect.CodeUnauthenticated
	}
	return failureAs(code, err)
}

// failureAs is failure with another code than the error's kind has; 0 for that.
func failureAs(code connect.Code, err error) *connect.Error {
	passed, _ := connectError(wire.ToStatus(err)).(*connect.Error) //nolint:errorlint // it is one
	if code == 0 {
		return passed
	}
	e := connect.NewError(code, errors.New(passed.Message()))
	for _, d := range passed.Details() {
		e.AddDetail(d)
	}
	return e
}

// refuse answers a request with the error, in the form of its protocol: at the end of a stream, and else as JSON.
func refuse(w http.ResponseWriter, r *http.Request, e *connect.Error) {
	w.Header().Set("Cache-Control", "no-store")
	if _, ok := protocol(r); !ok { // gRPC would have it in a header of a 200
		r = r.Clone(r.Context())
		r.Header.Set("Content-Type", "application/json")
	}
	_ = connect.NewErrorWriter().Write(w, r, e) // the browser is gone
}
