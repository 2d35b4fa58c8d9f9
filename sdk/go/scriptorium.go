// Package scriptorium is for scripts in Go that run as WebAssembly modules: see README.md. It needs no
// package that uses reflection, so that TinyGo compiles it to a small module.
package scriptorium

// handler is what Handle or HandleJSON registered. The exports of a module are global, so it is, too.
var handler func(argument string) (result string, err error)

// Handle has h decide about requests. Call it once, in a function init of package main: a module has no
// main that runs.
//
// Without a decision (nil), the request goes on as it is. With an error, the call fails with its text.
func Handle(h func(*Request) (*Decision, error)) {
	handler = func(argument string) (string, error) {
		decision, err := h(newRequest(argument))
		if err != nil || decision == nil {
			return "", err
		}
		return decision.JSON(), nil
	}
}

// HandleJSON has h answer calls with any argument: it gets the argument as JSON ("null" if there is none)
// and returns the result as JSON. An empty result is no result.
func HandleJSON(h func(argument string) (result string, err error)) { handler = h }

// call runs the handler. If it fails, so does the call.
func call(argument string) string {
	if handler == nil {
		Fail("no handler: call scriptorium.Handle in a function init of package main")
	}
	result, err := handler(argument)
	if err != nil {
		Fail(err.Error())
	}
	return result
}
