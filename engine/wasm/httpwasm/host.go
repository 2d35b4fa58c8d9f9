package httpwasm

import (
	"unicode/utf8"

	"github.com/http-wasm/http-wasm-host-go/api"
	"github.com/http-wasm/http-wasm-host-go/api/handler"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Agent is what the functions of the ABI need besides the sandbox.
type Agent struct {
	// Exchange returns what the call is about; nil while the module starts.
	Exchange func(c *sandbox.Call) *Exchange
	// Log logs the text at the address.
	Log func(c *sandbox.Call, level engine.Level, address, length uint32)
}

// Imports returns the functions of HostModule. Their errors end the call, as the ABI says.
func Imports(a Agent) []sandbox.Import {
	var list []sandbox.Import
	add := func(name string, params int, results []sandbox.ValueType, call func(c *sandbox.Call, stack []uint64)) {
		i := sandbox.Import{Module: HostModule, Name: name, Results: results, Call: call}
		for range params {
			i.Params = append(i.Params, sandbox.I32)
		}
		list = append(list, i)
	}
	// about adds a function that needs an exchange.
	about := func(name string, params int, results []sandbox.ValueType, call func(g *guest)) {
		add(name, params, results, func(c *sandbox.Call, stack []uint64) {
			g := guest{Call: c, Exchange: a.Exchange(c), function: name, stack: stack}
			if g.Exchange == nil {
				g.Failf("%s: there is no request while the module starts: call it in %s or %s", name, HandleRequest, HandleResponse)
			}
			call(&g)
		})
	}
	var none, number, pair []sandbox.ValueType = nil, []sandbox.ValueType{sandbox.I32}, []sandbox.ValueType{sandbox.I64}

	add(handler.FuncEnableFeatures, 1, number, enableFeatures)
	add(handler.FuncGetConfig, 2, number, getConfig)
	add(handler.FuncLogEnabled, 1, number, logEnabled)
	add(handler.FuncLog, 3, none, a.log)

	about(handler.FuncGetMethod, 2, number, func(g *guest) { g.text(g.method) })
	about(handler.FuncSetMethod, 2, none, func(g *guest) { g.refuse("a decision cannot change the method of a request") })
	about(handler.FuncGetURI, 2, number, func(g *guest) { g.text(g.uri) })
	about(handler.FuncSetURI, 2, none, setURI)
	about(handler.FuncGetProtocolVersion, 2, number, func(g *guest) { g.text(protocol) })
	about(handler.FuncGetSourceAddr, 2, number, func(g *guest) { g.text(g.source) })

	about(handler.FuncGetHeaderNames, 3, pair, getHeaderNames)
	about(handler.FuncGetHeaderValues, 5, pair, getHeaderValues)
	about(handler.FuncSetHeaderValue, 5, none, func(g *guest) { g.change((*headers).set) })
	about(handler.FuncAddHeaderValue, 5, none, func(g *guest) { g.change((*headers).add) })
	about(handler.FuncRemoveHeader, 3, none, removeHeader)

	about(handler.FuncReadBody, 3, pair, readBody)
	about(handler.FuncWriteBody, 3, none, writeBody)
	about(handler.FuncGetStatusCode, 0, number, getStatusCode)
	about(handler.FuncSetStatusCode, 1, none, setStatusCode)
	return list
}

// protocol is what get_protocol_version answers. Gateways do not tell the client's.
const protocol = "HTTP/1.1"

// guest is the caller of a function.
type guest struct {
	*sandbox.Call
	*Exchange
	function string
	stack    []uint64
}

// refuse ends the call.
func (g *guest) refuse(why string) { g.Failf("%s: %s", g.function, why) }

// read reads a text of the guest.
func (g *guest) read(address, length uint64, most int) string {
	n := uint32(length)
	if int64(n) > int64(most) {
		g.Fail(script.Errorf(script.Limit, "", "%s: the module passed a text of %d bytes: at most %d are allowed", g.function, n, most))
	}
	if n == 0 { // its address is nobody's business
		return ""
	}
	b := g.Read(uint32(address), n)
	g.ChargeBytes(len(b))
	if !utf8.Valid(b) {
		g.refuse("the text is not UTF-8")
	}
	return string(b)
}

// text answers with a text, by the first two parameters.
func (g *guest) text(s string) { g.stack[0] = write(g.Call, g.stack[0], g.stack[1], s) }

// write writes a text if it fits, and returns its length. What does not fit is not written at all.
func write(c *sandbox.Call, buf, limit uint64, s string) uint64 {
	if uint64(len(s)) <= uint64(uint32(limit)) {
		c.ChargeBytes(len(s))
		c.Write(uint32(buf), []byte(s))
	}
	return uint64(len(s))
}

// list writes texts, each with the byte 0 at its end, if all of them fit. It returns how many there are, and their bytes.
func (g *guest) list(buf, limit uint64, texts []string) uint64 {
	bytes := len(texts)
	for _, t := range texts {
		bytes += len(t)
	}
	if uint64(bytes) <= uint64(uint32(limit)) {
		g.ChargeBytes(bytes)
		b := make([]byte, 0, bytes)
		for _, t := range texts {
			b = append(append(b, t...), 0)
		}
		g.Write(uint32(buf), b)
	}
	return uint64(len(texts))<<32 | uint64(bytes)
}

func enableFeatures(c *sandbox.Call, stack []uint64) {
	enabled := handler.Features(c.Mark()).WithEnabled(handler.Features(stack[0])) & supported
	c.SetMark(uint64(enabled))
	stack[0] = uint64(enabled)
}

func getConfig(c *sandbox.Call, stack []uint64) {
	c.Outside()
	c.Charge(1 + len(c.Inv.Config)/bytesPerInstruction)
	text, err := configText(c.Inv.Config, c.Charge)
	if err != nil {
		c.Fail(err)
	}
	stack[0] = write(c, stack[0], stack[1], text)
}

// levelOf returns the level of a line; ok is false if nobody wants it.
func levelOf(level uint64) (_ engine.Level, ok bool) {
	switch api.LogLevel(int32(uint32(level))) {
	case api.LogLevelInfo:
		return engine.Info, true
	case api.LogLevelWarn:
		return engine.Warn, true
	case api.LogLevelError:
		return engine.Error, true
	}
	return "", false
}

func logEnabled(_ *sandbox.Call, stack []uint64) {
	_, ok := levelOf(stack[0])
	if stack[0] = 0; ok {
		stack[0] = 1
	}
}

func (a Agent) log(c *sandbox.Call, stack []uint64) {
	if level, ok := levelOf(stack[0]); ok {
		a.Log(c, level, uint32(stack[1]), uint32(stack[2]))
	}
}

func setURI(g *guest) {
	g.early("the URI of the request")
	text := g.read(g.stack[0], g.stack[1], g.most)
	g.hold(g.Call, 2*len(text)) // as it was set, and as it is sent
	if err := g.setURI(text); err != nil {
		g.refuse(err.Error())
	}
}

// early ends the call if it is too late to change the request.
func (g *guest) early(what string) {
	if g.after {
		g.refuse(what + " cannot change in " + HandleResponse + ": the request is over")
	}
}

func getStatusCode(g *guest) {
	if g.stack[0] = uint64(g.status); g.status == 0 {
		g.stack[0] = 200
	}
}

func setStatusCode(g *guest) {
	status := uint32(g.stack[0])
	if status < 200 || status > 599 {
		g.Failf("%s: the status is %d: want 200 to 599", g.function, status)
	}
	g.status = int(status)
}
