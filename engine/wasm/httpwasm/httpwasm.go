// Package httpwasm is the host of the http-wasm handler ABI, so that modules run which others have built for it. A call's
// argument is the HTTP request, and what the module makes of it is the call's result: a decision, as gateways read it.
//
// The ABI's names, numbers and features are those of github.com/http-wasm/http-wasm-host-go/api/handler. Its host is not
// used: that owns a wazero.Runtime, keeps instances from request to request, and bounds neither instructions nor memory.
// Here all of this is up to engine/wasm/sandbox, as for every module.
package httpwasm

import (
	"github.com/http-wasm/http-wasm-host-go/api/handler"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Names of the ABI.
const (
	// HostModule is the module whose functions a guest imports.
	HostModule = handler.HostModule
	// HandleRequest and HandleResponse are what a guest exports.
	HandleRequest  = handler.FuncHandleRequest
	HandleResponse = handler.FuncHandleResponse
)

// Places of the guest's functions in sandbox.Source.Functions.
const (
	request = iota
	response
)

// Functions returns the exports that Exchange.Call calls, for sandbox.Source.Functions.
func Functions() []string {
	return []string{request: HandleRequest, response: HandleResponse}
}

// supported are the features that a guest may enable. Both always hold: the argument has the whole body if the gateway
// sends it, and a response waits for the guest. No gateway passes trailers.
const supported = handler.FeatureBufferRequest | handler.FeatureBufferResponse

// maxName is how many bytes the name of a header may have.
const maxName = 8 << 10

// Call has the guest handle the exchange. It calls finish when the guest has handled a request for the response: what it
// has written until then is of the request.
func (x *Exchange) Call(c *sandbox.Call, finish func(c *sandbox.Call)) error {
	x.most = c.Limits.ResultBytes
	stack := c.Stack()
	stack[0] = 0
	if err := c.Invoke(request, stack[:1]); err != nil {
		return err
	}
	next := handler.CtxNext(stack[0])
	x.next = uint32(next) != 0
	if !x.late {
		return nil
	}
	finish(c)
	x.answered()
	stack[0], stack[1] = uint64(next>>32), 0
	return c.Invoke(response, stack[:2])
}

// hold counts bytes that the guest has the host keep, and ends the call if they are more than a result may have.
func (x *Exchange) hold(c *sandbox.Call, n int) {
	const overhead = 32 // of a header, at least
	x.held += n + overhead
	c.Hold(n + overhead)
	if x.held > x.most {
		c.Fail(script.Errorf(script.Limit, "", "the module has set more than %d bytes of headers, URI and body: raise limits.resultBytes", x.most))
	}
}
