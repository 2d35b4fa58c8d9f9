package spopsock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// decider is an executor whose script acme/d notes what it gets, and returns the result.
type decider struct {
	*gatewaytest.Executor
	result, got atomic.Value // strings
}

func deciding(result string) *decider {
	x := &decider{Executor: gatewaytest.New()}
	x.result.Store(result)
	x.got.Store("")
	x.Set("acme/d", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
		x.got.Store(string(call.Args[0]))
		if result := x.result.Load().(string); result != "" {
			return [][]byte{[]byte(result)}, nil
		}
		return nil, nil
	})
	return x
}

func TestHello(t *testing.T) {
	_, path := serve(t, Options{})
	for _, tt := range []struct {
		versions string
		most     uint64
		want     uint64
	}{
		{"2.0", 16380, 16380}, {"2.0", 256, 256}, {"1.5, 2.0", 1 << 32, 16384}, {" 2.1 ,3.0", 1<<64 - 1, 16384},
	} {
		c := dial(t, path)
		c.send(hello(tt.versions, tt.most, "pipelining"))
		kind, _, pairs := c.receive()
		if got := list(pairs); kind != frameAgentHello || got != fmt.Sprintf("capabilities=pipelining,async max-frame-size=%d version=2.0", tt.want) {
			t.Errorf("%q, %d: %d %s", tt.versions, tt.most, kind, got)
		}
		c.expectClean()
	}
	c := dial(t, path)
	c.send(hello("2.0", 16380, "", "healthcheck"))
	if kind, _, _ := c.receive(); kind != frameAgentHello {
		t.Errorf("a health check gets a frame of type %d", kind)
	}
	c.expectClosed()
}

func TestHelloThatCannotBe(t *testing.T) {
	_, path := serve(t, Options{})
	lacking := func(pairs ...arg) []byte {
		return appendFrame(nil, header{kind: frameHello, flags: flagFinal}, func(dst []byte) []byte {
			for _, p := range pairs {
				dst = appendPair(dst, p.name, p.value)
			}
			return dst
		})
	}
	versions, size, able := text("supported-versions", "2.0"), arg{"max-frame-size", numberValue(1000)}, text("capabilities", "")
	for name, tt := range map[string]struct {
		frame  []byte
		status status
		reason string
	}{
		"an old version":     {hello("1.0,1.9", 16380, ""), statusVersion, `only SPOP 2.0, and not "1.0,1.9"`},
		"no number":          {hello("2", 16380, ""), statusVersion, "only SPOP 2.0"},
		"small frames":       {hello("2.0", 255, ""), statusFrameSize, "want at least 256"},
		"no versions":        {lacking(size, able), statusNoVersion, "supported-versions"},
		"no size":            {lacking(versions, able), statusNoFrameSize, "max-frame-size"},
		"a size as text":     {lacking(versions, able, text("max-frame-size", "1000")), statusNoFrameSize, "max-frame-size"},
		"no capabilities":    {lacking(versions, size), statusNoCapability, "capabilities"},
		"a stream":           {appendFrame(nil, header{kind: frameHello, flags: flagFinal, stream: 1}, nil), statusInvalid, "HELLO is malformed"},
		"half a pair":        {appendFrame(nil, header{kind: frameHello, flags: flagFinal}, func(dst []byte) []byte { return append(dst, "\x05half"...) }), statusInvalid, "malformed"},
		"fragments":          {appendFrame(nil, header{kind: frameHello}, nil), statusFragmentation, "does not announce fragmentation"},
		"a question first":   {ask(1, text("script", "acme/echo")), statusInvalid, "type 3 came before HELLO"},
		"something unknown":  {appendFrame(nil, header{kind: 77, flags: flagFinal}, nil), statusInvalid, "type 77 came before HELLO"},
		"another protocol":   {[]byte("GET / HTTP/1.1\r\n\r\n"), statusTooBig, "at most 16384"},
		"no room for a head": {[]byte("\x00\x00\x00\x06\x01\x00\x00"), statusInvalid, "no room for its head"},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, path)
			c.send(tt.frame)
			c.expectEnd(tt.status, tt.reason)
		})
	}
}

// TestDecide: which variables are set for what scripts return.
func TestDecide(t *testing.T) {
	x := deciding("")
	_, path := serve(t, Options{Executor: x})
	c := connect(t, path, "pipelining")
	for i, tt := range []struct{ script, result, want string }{
		{"d", ``, "allow=true version=7"},
		{"d", `false`, "allow=false status=403 version=7"},
		{"d", `{"allow":false,"status":401,"body":"who?","response_headers":{"set":{"www-authenticate":"Basic"}}}`, "allow=false body=who? res.www_authenticate=Basic response==www-authenticate status=401 version=7"},
		{"d", `{"redirect":"/login#a"}`, "allow=false res.location=/login#a response==location status=302 version=7"},
		{"d", `{"headers":{"set":{"X-User":"ann","x.a":["1","2"]},"append":{"via":["a","b"]},"remove":["cookie"]}}`, "allow=true req.add.via=a req.add.via.2=b req.add.x_a=2 req.del.cookie=true req.x_a=1 req.x_user=ann request=-cookie =x-user =x.a +x.a +via +via version=7"},
		{"d", `{"cookies":[{"name":"a","value":"1"},{"name":"b","value":"2"}],"vary":["Cookie"]}`, "allow=true res.add.set_cookie=a=1; Path=/; HttpOnly; Secure; SameSite=Lax res.add.set_cookie.2=b=2; Path=/; HttpOnly; Secure; SameSite=Lax res.add.vary=cookie response=+set-cookie +set-cookie +vary version=7"},
		{"d", `{"upstream":"canary","path":"/v2","query":"","metadata":{"a":1}}`, `allow=true metadata={"a":1} path=/v2 query= upstream=canary version=7`},
		{"d", `{"allow":false,"upstream":"canary","path":"/v2","headers":{"set":{"x-user":"ann"}}}`, "allow=false status=403 version=7"},
		{"d", `{"headers":{"set":{"x-user":"a"},"remove":["x_user"]}}`, "allow=false body=no decision\n reason=INVALID status=503 version=7"},
		{"d", `{"headers":{"set":{"x-user":"a"},"remove":["x-user"]}}`, "allow=true req.del.x_user=true req.x_user=a request=-x-user =x-user version=7"},
		{"d", `{"alow":false}`, "allow=false body=no decision\n reason=INVALID status=503 version=7"},
		{"d", `{"allow":false,"body":"` + strings.Repeat("x", 16380) + `"}`, "allow=false body=no decision\n reason=LIMIT status=503 version=7"},
		{"fail", ``, "allow=false body=no decision\n reason=SCRIPT status=503 version=7"},
		{"none", ``, "allow=false body=no decision\n reason=NOTFOUND status=503"},
		{"panic", ``, "allow=false body=no decision\n reason=INTERNAL status=503"},
		{"d@7", ``, "allow=false body=no decision\n reason=NOTFOUND status=503"},
	} {
		x.result.Store(tt.result)
		c.send(ask(uint64(i), text("script", "acme/"+tt.script)))
		c.expectAnswer(uint64(i), tt.want)
	}
	for i, tt := range []struct {
		fail, script, result, want string
	}{
		{"open", "fail", "", "allow=true reason=SCRIPT version=7"},
		{"open", "none", "", "allow=true reason=NOTFOUND"},
		{"open", "d", `{"alow":false}`, "allow=true reason=INVALID version=7"},
		{"open", "d", `false`, "allow=false status=403 version=7"},
		{"closed", "fail", "", "allow=false body=no decision\n reason=SCRIPT status=503 version=7"},
	} {
		x.result.Store(tt.result)
		c.send(ask(uint64(i), text("script", "acme/"+tt.script), text("fail", tt.fail)))
		c.expectAnswer(uint64(i), tt.want)
	}
	for _, timeout := range []arg{text("timeout", "1ms"), {"timeout", value{kind: kindInt64, number: 1}}} {
		c.send(ask(1, text("script", "acme/wait"), timeout))
		c.expectAnswer(1, "allow=false body=no decision\n reason=TIMEOUT status=503 version=7")
	}
	c.expectClean()
}

// TestSmallFrames: also the smallest frames have room for a refusal.
func TestSmallFrames(t *testing.T) {
	_, path := serve(t, Options{Executor: deciding(`{"allow":false,"body":"` + strings.Repeat("x", 250) + `"}`)})
	c := dial(t, path)
	c.send(hello("2.0", 256, "pipelining"))
	c.receive()
	c.send(ask(1<<63, text("script", "acme/d")))
	c.expectAnswer(1<<63, "allow=false body=no decision\n reason=LIMIT status=503 version=7")
	c.send(ask(1, text("script", "acme/d"), text("body", strings.Repeat("x", 256))))
	c.expectEnd(statusTooBig, "at most 256 were agreed")
}

// TestWhatIsAsked: the script gets the client's request.
func TestWhatIsAsked(t *testing.T) {
	x := deciding("")
	_, path := serve(t, Options{Executor: x})
	c := connect(t, path, "pipelining")
	binary := func(pairs ...string) arg {
		var b []byte
		for _, s := range append(pairs, "", "") {
			b = appendString(b, s)
		}
		return arg{"headers", value{kind: kindBinary, text: string(b)}}
	}
	null := func(name string) arg { return arg{name, value{}} }
	const start = `{"tenant":"acme","method":"","scheme":"","host":"","path":"","query":"","remote_addr":`
	for i, tt := range []struct {
		args []arg
		want string
	}{
		{nil, start + `"","headers":{},"params":{}}`},
		{[]arg{
			text("method", "POST"), text("scheme", "https"), text("host", "shop.example"), text("path", "/a//%62"), text("query", "x=1"),
			{"src", value{kind: kindIPv4, text: "\xc0\x00\x02\x07"}},
			text("cert", "/CN=ann"), text("route", "cart"),
			{"body", value{kind: kindBinary, text: "hi"}},
			text("param.env", "prod"),
			{"param.n", value{kind: kindInt32, number: 3}},
			binary("Accept", "a", "x-tag", "1", "X-Tag", "2", "Scriptorium-Upstream", "forged"),
		}, `{"tenant":"acme","method":"POST","scheme":"https","host":"shop.example","path":"/a/b","raw_path":"/a//%62","query":"x=1","remote_addr":"192.0.2.7",` +
			`"client_certificate":"/CN=ann","route":"cart","headers":{"accept":"a","x-tag":["1","2"]},"body":"hi","params":{"env":"prod","n":"3"}}`},
		{[]arg{text("headers", "Accept: a\r\nx-tag:1\nX-Tag:\t2 \r\nempty:\r\n\r\nignored"), text("remote_addr", "2001:db8::1")}, start + `"2001:db8::1","headers":{"accept":"a","empty":"","x-tag":["1","2"]},"params":{}}`},
		{[]arg{null("method"), null("headers"), null("body"), null("cert"), null("fail"), null("timeout"), null("param.a"), null("src")}, start + `"","headers":{},"params":{}}`},
	} {
		c.send(ask(uint64(i), append(tt.args, text("script", "acme/d"))...))
		c.expectAnswer(uint64(i), "allow=true version=7")
		if got := x.got.Load(); got != tt.want {
			t.Errorf("%v:\n%s\nwant\n%s", tt.args, got, tt.want)
		}
	}
	x.Set("acme/key", gatewaytest.Key)
	c.send(ask(1, text("script", "acme/key"), text("key", "ann"), text("headers", "X-User: bob\r\nScriptorium-Key: forged\r\n")))
	c.expectAnswer(1, "allow=false body=ann, bob status=403 version=7")
	c.send(ask(1, text("script", "acme/trace"), binary("traceparent", "00-1-2-01")))
	c.expectAnswer(1, "allow=false body=no decision\n reason=INVALID status=503 version=7") // text is no decision
}

// TestWhatIsNotAsked: what is malformed is denied, also where the gateway fails open.
func TestWhatIsNotAsked(t *testing.T) {
	x := deciding("")
	_, path := serve(t, Options{Executor: x})
	c := connect(t, path, "pipelining")
	ours := []arg{text("script", "acme/d"), text("fail", "open")}
	notify := func(fill func([]byte) []byte) []byte {
		return appendFrame(nil, header{kind: frameNotify, flags: flagFinal, stream: 1, frame: 2}, fill)
	}
	for name, frame := range map[string][]byte{
		"no script":               ask(1, text("fail", "open")),
		"a script of no tenant":   ask(1, text("script", "echo"), text("fail", "open")),
		"an unknown argument":     ask(1, append(ours, text("methud", "GET"))...),
		"an argument without one": ask(1, append(ours, text("", "GET"))...),
		"a parameter without one": ask(1, append(ours, text("param.", "GET"))...),
		"an argument twice":       ask(1, append(ours, text("path", "/public"), text("path", "/admin"))...),
		"two addresses":           ask(1, append(ours, text("src", "192.0.2.1"), text("remote_addr", "192.0.2.2"))...),
		"a fragment":              ask(1, append(ours, text("path", "/admin#/x"))...),
		"a fragment of a query":   ask(1, append(ours, text("path", "/admin"), text("query", "debug=1#x"))...),
		"another fail":            ask(1, text("script", "acme/d"), text("fail", "opened")),
		"no time":                 ask(1, append(ours, text("timeout", "-1s"))...),
		"headers of numbers":      ask(1, append(ours, arg{"headers", numberValue(7)})...),
		"malformed binary":        ask(1, append(ours, arg{"headers", value{kind: kindBinary, text: "\x01a\x09b"}})...),
		"binary with more":        ask(1, append(ours, arg{"headers", value{kind: kindBinary, text: "\x00\x00\x01a\x01b"}})...),
		"headers without names":   ask(1, append(ours, text("headers", ": a\r\n"))...),
		"a header of one word":    ask(1, append(ours, text("headers", "accept\r\n"))...),
		"another message":         notify(func(dst []byte) []byte { return message(dst, "scriptoriums", ours...) }),
		"two messages":            notify(func(dst []byte) []byte { return message(message(dst, messageName, ours...), messageName+"-2", ours...) }),
	} {
		x.got.Store("")
		c.send(frame)
		kind, _, vars := c.receive()
		if text := list(vars); kind != frameAck || text != "allow=false body=no decision\n reason=INVALID status=503" || x.got.Load() != "" {
			t.Errorf("%s: %d %s; asked %s", name, kind, text, x.got.Load())
		}
	}
	c.send(notify(func(dst []byte) []byte { return message(dst, messageName+"-api", ours...) }))
	c.expectAnswer(1, "allow=true version=7")
}

// TestDecideForOthers: a caller without a grant gets no decision.
func TestDecideForOthers(t *testing.T) {
	x := deciding("")
	access, err := gateway.ParseAccess([]string{"uid:4242=*"})
	if err != nil {
		t.Fatal(err)
	}
	_, path := serve(t, Options{Executor: x, Access: access})
	c := connect(t, path, "")
	c.send(ask(1, text("script", "acme/d")))
	c.expectAnswer(1, "allow=false body=no decision\n reason=DENIED status=503")
	if got := x.got.Load(); got != "" {
		t.Errorf("asked %s", got)
	}
}

// gates returns an executor whose script acme/slow says on begun that it runs, and ends with an
// element of finish.
func gates() (x *gatewaytest.Executor, begun, finish chan struct{}) {
	x, begun, finish = gatewaytest.New(), make(chan struct{}), make(chan struct{})
	x.Set("acme/slow", func(ctx context.Context, _ *gateway.Call) ([][]byte, error) {
		begun <- struct{}{}
		select {
		case <-finish:
			return nil, nil
		case <-ctx.Done():
			return nil, script.Errorf(script.Timeout, "", "it was given up")
		}
	})
	x.Set("acme/fast", func(context.Context, *gateway.Call) ([][]byte, error) { return nil, nil })
	return x, begun, finish
}

// TestPipelining: a question is answered before one that came earlier and takes longer.
func TestPipelining(t *testing.T) {
	x, begun, finish := gates()
	_, path := serve(t, Options{Executor: x})
	for _, able := range []string{"pipelining", "async", "x, async ,pipelining"} {
		c := connect(t, path, able)
		c.send(ask(1, text("script", "acme/slow")), ask(2, text("script", "acme/fast")))
		<-begun
		c.expectAnswer(2, "allow=true version=7")
		finish <- struct{}{}
		c.expectAnswer(1, "allow=true version=7")
		c.expectClean()
	}
}

// TestNoPipelining: without the capability, answers come in order.
func TestNoPipelining(t *testing.T) {
	x, begun, finish := gates()
	_, path := serve(t, Options{Executor: x})
	c := connect(t, path, "fragmentation")
	c.send(ask(1, text("script", "acme/slow")), ask(2, text("script", "acme/fast")), ask(3, text("skript", "acme/fast")), ask(4, text("script", "acme/fast")))
	<-begun
	finish <- struct{}{}
	c.expectAnswer(1, "allow=true version=7")
	c.expectAnswer(2, "allow=true version=7")
	c.expectAnswer(3, "allow=false body=no decision\n reason=INVALID status=503")
	c.expectAnswer(4, "allow=true version=7")
}

// TestMostRunning: a connection has only so many questions that run.
func TestMostRunning(t *testing.T) {
	x, begun, finish := gates()
	_, path := serve(t, Options{Executor: x, MaxRunning: 2})
	c := connect(t, path, "pipelining")
	for i := range 3 {
		c.send(ask(uint64(i), text("script", "acme/slow")))
	}
	<-begun
	<-begun
	other := connect(t, path, "pipelining")
	other.send(ask(9, text("script", "acme/fast")))
	other.expectAnswer(9, "allow=true version=7")
	select {
	case <-begun:
		t.Error("three run at once")
	default:
	}
	finish <- struct{}{}
	<-begun // the third
	finish <- struct{}{}
	finish <- struct{}{}
	for range 3 {
		if kind, _, _ := c.receive(); kind != frameAck {
			t.Errorf("got a frame of type %d", kind)
		}
	}
}

// TestACallEndsWithItsConnection: there is nobody to answer.
func TestACallEndsWithItsConnection(t *testing.T) {
	x := gatewaytest.New()
	begun, ended := make(chan struct{}), make(chan struct{})
	x.Set("acme/slow", func(ctx context.Context, _ *gateway.Call) ([][]byte, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	_, path := serve(t, Options{Executor: x})
	c := connect(t, path, "pipelining")
	c.send(ask(1, text("script", "acme/slow")))
	<-begun
	c.Close()
	<-ended
}

func TestShutdownFinishesCallsInFlight(t *testing.T) {
	x, begun, finish := gates()
	s, path := serve(t, Options{Executor: x})
	idle, busy := connect(t, path, ""), connect(t, path, "pipelining")
	busy.send(ask(1, text("script", "acme/slow")))
	<-begun
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	idle.expectEnd(statusNormal, "the agent stops")
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("a new connection was accepted")
	}
	finish <- struct{}{}
	busy.expectAnswer(1, "allow=true version=7")
	busy.expectEnd(statusNormal, "the agent stops")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestShutdownGivesUp(t *testing.T) {
	x, begun, _ := gates()
	s, path := serve(t, Options{Executor: x})
	c := connect(t, path, "pipelining")
	c.send(ask(1, text("script", "acme/slow")))
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
	c.expectClosed()
}

// quiet is an Executor that allocates nothing.
type quiet struct{ *gatewaytest.Executor }

func (quiet) Execute(context.Context, *gateway.Call, *gateway.Reply) error { return nil }

func BenchmarkDecide(b *testing.B) {
	_, path := serve(b, Options{Executor: quiet{gatewaytest.New()}})
	c := connect(b, path, "pipelining")
	frame := ask(1, text("script", "acme/d"), text("method", "GET"), text("path", "/cart"), text("headers", "host: shop.example\r\naccept: */*\r\nx-user: ann\r\n\r\n"))
	for _, pipeline := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipeline=%d", pipeline), func(b *testing.B) {
			request := []byte(strings.Repeat(string(frame), pipeline))
			reply := make([]byte, pipeline*len(mustAck(b)))
			b.ReportAllocs()
			for b.Loop() {
				c.send(request)
				if _, err := io.ReadFull(c, reply); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pipeline), "ns/call")
		})
	}
}
