package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	checkAll = "/grpc.health.v1.Health/Check"
	watchAll = "/grpc.health.v1.Health/Watch"
	reflect  = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
)

// methods of the service that is attacked.
type methods struct {
	service string
	one     string // takes one message
	many    string // takes a stream of them
	list    string
}

var ofAgent = methods{"scriptorium.agent.v1.Executor", "/scriptorium.agent.v1.Executor/Execute", "/scriptorium.agent.v1.Executor/ExecuteStream", "/scriptorium.agent.v1.Executor/List"}

func grpcAttacks(m methods) []attack {
	all := slicesOf("gRPC: frames", m.frames())
	all = append(all, slicesOf("gRPC: headers", m.headers())...)
	all = append(all, slicesOf("gRPC: messages", m.messages())...)
	return append(all, slicesOf("gRPC: streams and replies", m.streams())...)
}

// frames are bytes of HTTP/2 that a client sends.
type frames struct {
	bytes.Buffer
	encoder *hpack.Encoder
	block   bytes.Buffer
	last    uint32
}

// hello begins as a client does.
func hello(settings ...http2.Setting) *frames {
	f := &frames{}
	f.encoder = hpack.NewEncoder(&f.block)
	f.WriteString(http2.ClientPreface)
	f.settings(settings...)
	return f
}

func (f *frames) settings(settings ...http2.Setting) *frames {
	body := make([]byte, 0, 6*len(settings))
	for _, s := range settings {
		body = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(body, uint16(s.ID)), s.Val)
	}
	return f.frame(http2.FrameSettings, 0, 0, body)
}

// frame appends a frame, whatever is wrong with it.
func (f *frames) frame(kind http2.FrameType, flags http2.Flags, stream uint32, body []byte) *frames {
	n := len(body)
	f.Write([]byte{byte(n >> 16), byte(n >> 8), byte(n), byte(kind), byte(flags)})
	f.Write(binary.BigEndian.AppendUint32(nil, stream))
	f.Write(body)
	return f
}

// next returns the next stream.
func (f *frames) next() uint32 {
	f.last = max(f.last+2, 1)
	f.last |= 1
	return f.last
}

// head returns the compressed headers of a call.
func (f *frames) head(method string, more ...string) []byte {
	f.block.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "x", "content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(f.block.Bytes())
}

// call opens a stream.
func (f *frames) call(method string, more ...string) uint32 {
	id := f.next()
	f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, f.head(method, more...))
	return id
}

// message is a message of gRPC with its prefix.
func message(compressed byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(body))), body...)
}

// whole makes a call with its message.
func (f *frames) whole(method string, body []byte, more ...string) {
	f.frame(http2.FrameData, http2.FlagDataEndStream, f.call(method, more...), message(0, body))
}

// request is an ExecuteRequest.
func request(script string, args ...string) []byte {
	b := append([]byte{0x0a, byte(len(script))}, script...)
	for _, arg := range args {
		b = append(b, 0x12)
		b = binary.AppendUvarint(b, uint64(len(arg)))
		b = append(b, arg...)
	}
	return b
}

// times appends what add adds, so many times.
func (f *frames) times(n int, add func(f *frames)) *frames {
	for range n {
		add(f)
	}
	return f
}

// floods is an attack that sends the frames on some connections, and reads what comes.
func floods(idea string, conns int, make func() *frames) attack {
	return attack{idea: idea, most: strangers, run: func(a *arena) {
		text := make().String()
		for range conns {
			conn := a.dial()
			drain(conn)
			send(conn, text)
		}
	}}
}

func (m methods) frames() []attack {
	const many = 20_000
	u32 := func(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
	return []attack{
		sends("prefaces that are none", "PRI * HTTP/2.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", command("PING"), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", everyByte()),
		{idea: "prefaces, and nothing after them", own: true, run: func(a *arena) { a.each(600, http2.ClientPreface) }},
		{idea: "half a preface", own: true, run: func(a *arena) { a.each(600, http2.ClientPreface[:10]) }},
		floods("SETTINGS without end", 8, func() *frames { return hello().times(many, func(f *frames) { f.settings() }) }),
		floods("SETTINGS that change all windows of 1,000 calls, again and again", 4, func() *frames {
			return hello().times(1000, func(f *frames) { f.call(m.many) }).times(2000, func(f *frames) {
				f.settings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(f.Len() % 60_000)})
			})
		}),
		floods("SETTINGS with absurd values", 8, func() *frames {
			return hello(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 1<<32 - 1}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<32 - 1})
		}),
		floods("SETTINGS that the server sends to itself", 8, func() *frames {
			return hello().times(many, func(f *frames) { f.frame(http2.FrameSettings, http2.FlagSettingsAck, 0, nil) })
		}),
		floods("PING without end", 8, func() *frames {
			return hello().times(many, func(f *frames) { f.frame(http2.FramePing, 0, 0, make([]byte, 8)) })
		}),
		floods("answers to PINGs that nobody sent", 8, func() *frames {
			return hello().times(many, func(f *frames) { f.frame(http2.FramePing, http2.FlagPingAck, 0, make([]byte, 8)) })
		}),
		{idea: "PING without end, and nobody reads the answers", most: oneCaller, run: func(a *arena) {
			a.atOnce(64, hello().times(many, func(f *frames) { f.frame(http2.FramePing, 0, 0, make([]byte, 8)) }).String())
		}},
		floods("windows that overflow", 8, func() *frames {
			return hello().times(3, func(f *frames) { f.frame(http2.FrameWindowUpdate, 0, 0, u32(1<<31-1)) })
		}),
		floods("windows of calls that overflow", 8, func() *frames {
			return hello().times(100, func(f *frames) {
				id := f.call(m.many)
				f.times(2, func(f *frames) { f.frame(http2.FrameWindowUpdate, 0, id, u32(1<<31-1)) })
			})
		}),
		floods("windows that grow by nothing, so that the server resets the calls", 8, func() *frames {
			return hello().times(2000, func(f *frames) { f.frame(http2.FrameWindowUpdate, 0, f.call(m.many), u32(0)) })
		}),
		floods("windows of calls that there are not", 8, func() *frames {
			return hello().times(many, func(f *frames) { f.frame(http2.FrameWindowUpdate, 0, 1001, u32(1)) })
		}),
		floods("PRIORITY without end, and of a call on itself", 8, func() *frames {
			return hello().times(many, func(f *frames) { f.frame(http2.FramePriority, 0, 3, append(u32(3), 1)) })
		}),
		floods("PUSH_PROMISE of a client", 8, func() *frames {
			return hello().times(10, func(f *frames) { f.frame(http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 1, u32(2)) })
		}),
		floods("GOAWAY without end, with much to say", 8, func() *frames {
			return hello().times(200, func(f *frames) { f.frame(http2.FrameGoAway, 0, 0, make([]byte, 16_000)) })
		}),
		floods("frames that there are not", 8, func() *frames {
			return hello().times(many, func(f *frames) { f.frame(0x77, 0xff, 1, []byte("x")) }).times(100, func(f *frames) { f.frame(0x88, 0, 0, make([]byte, 16_000)) })
		}),
		floods("frames of 16 MiB", 8, func() *frames { f := hello(); f.Write([]byte{0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1}); return f }),
		floods("frames of wrong sizes", 2, func() *frames {
			return hello().frame(http2.FramePing, 0, 0, make([]byte, 7)).frame(http2.FrameRSTStream, 0, 1, nil).frame(http2.FrameWindowUpdate, 0, 0, make([]byte, 3)).frame(http2.FrameSettings, 0, 0, make([]byte, 5))
		}),
		floods("DATA of calls that there are not", 8, func() *frames {
			return hello().times(1000, func(f *frames) { f.frame(http2.FrameData, 0, 1, make([]byte, 1000)) })
		}),
		floods("DATA of the connection itself", 8, func() *frames { return hello().frame(http2.FrameData, 0, 0, []byte("x")) }),
		floods("empty DATA without end", 8, func() *frames {
			f := hello()
			id := f.call(m.one)
			return f.times(many, func(f *frames) { f.frame(http2.FrameData, 0, id, nil) })
		}),
		floods("DATA that is padding alone", 8, func() *frames {
			f := hello()
			id := f.call(m.one)
			return f.times(200, func(f *frames) {
				f.frame(http2.FrameData, http2.FlagDataPadded, id, append([]byte{255}, make([]byte, 255)...))
			})
		}),
		floods("padding that is longer than its frame", 8, func() *frames {
			f := hello()
			return f.frame(http2.FrameData, http2.FlagDataPadded, f.call(m.one), []byte{200, 1})
		}),
	}
}

func (m methods) headers() []attack {
	continued := func(n, size int) func() *frames {
		return func() *frames {
			f := hello()
			f.frame(http2.FrameHeaders, 0, f.next(), f.head(m.one))
			field := append([]byte{0x00, 0x01, 'a', 0x7f, byte(size - 127)}, make([]byte, size)...)
			return f.times(n, func(f *frames) { f.frame(http2.FrameContinuation, 0, f.last, field) })
		}
	}
	return []attack{
		floods("CONTINUATION without end", 8, continued(20_000, 200)),
		floods("empty CONTINUATION without end", 8, func() *frames {
			f := hello()
			f.frame(http2.FrameHeaders, 0, f.next(), f.head(m.one))
			return f.times(20_000, func(f *frames) { f.frame(http2.FrameContinuation, 0, f.last, nil) })
		}),
		{idea: "HEADERS whose CONTINUATION does not come", own: true, most: strangers, run: func(a *arena) {
			a.atOnce(400, hello().frame(http2.FrameHeaders, 0, 1, make([]byte, 16_000)).String())
		}},
		floods("CONTINUATION of another call", 8, func() *frames {
			f := hello()
			return f.frame(http2.FrameHeaders, 0, 1, f.head(m.one)).frame(http2.FrameContinuation, http2.FlagContinuationEndHeaders, 3, nil)
		}),
		floods("headers of one byte each, out of the table", 8, func() *frames {
			f := hello()
			// One large field goes into the table, and is named 4,000 times in each call.
			f.block.Reset()
			_ = f.encoder.WriteField(hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("a", 3900)})
			bomb := append(f.head(m.one), f.block.Bytes()...)
			for range 200 {
				f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, f.next(), append(bytes.Clone(bomb), bytes.Repeat([]byte{0xbe}, 12_000)...))
			}
			return f
		}),
		floods("sizes of the table that are not allowed, and many", 8, func() *frames {
			f := hello()
			f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, f.next(), bytes.Repeat([]byte{0x20, 0x3f, 0xe1, 0x1f}, 4000))
			return f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, f.next(), []byte{0x3f, 0xff, 0xff, 0xff, 0xff, 0x0f})
		}),
		floods("places of the table that there are not", 8, func() *frames {
			f := hello()
			return f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, f.next(), []byte{0xff, 0xff, 0xff, 0xff, 0x7f})
		}),
		floods("Huffman codes that are none", 8, func() *frames {
			f := hello()
			return f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, f.next(), append([]byte{0x00, 0x81, 0xff, 0xff, 0x9f, 0xff}, bytes.Repeat([]byte{0xff}, 10_000)...))
		}),
		floods("headers beyond the bound", 8, func() *frames {
			return hello().times(200, func(f *frames) {
				f.call(m.one, "x-large", strings.Repeat("a", 15_000), "x-larger", strings.Repeat("b", 1_000))
			})
		}),
		floods("calls that are none", 8, func() *frames {
			f := hello()
			for _, fields := range [][]string{{":method", "GET"}, {":path", "nothing"}, {"X-Upper", "a"}, {"connection", "close"}, {":status", "200"}, {"te", "gzip"}, {"content-length", "-1"}, {"x", "a\r\nb"}, {"transfer-encoding", "chunked"}} {
				f.call(m.one, fields...)
			}
			return f
		}),
		floods("methods that there are not", 8, func() *frames {
			return hello().times(200, func(f *frames) { f.whole("/nothing/"+strings.Repeat("a", 5000), nil) })
		}),
		floods("other content types", 8, func() *frames {
			return hello().times(100, func(f *frames) { f.call(m.one, "content-type", "application/json") })
		}),
		floods("metadata in base64 that is none", 8, func() *frames {
			return hello().times(100, func(f *frames) { f.call(m.one, "x-bin", "!!!!"+strings.Repeat("=", 5000)) })
		}),
		floods("deadlines of a nanosecond, of a century, and of nothing", 8, func() *frames {
			return hello().times(50, func(f *frames) {
				for _, timeout := range []string{"1n", "99999999H", "-1S", "1", "999999999999S", "S"} {
					f.whole(m.one, request("acme/echo", "1"), "grpc-timeout", timeout)
				}
			})
		}),
		floods("headers again, after the message", 8, func() *frames {
			return hello().times(200, func(f *frames) {
				id := f.call(m.one)
				f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, id, f.head(m.one))
			})
		}),
		floods("numbers of calls that are even, fall, or are the last", 8, func() *frames {
			f := hello()
			for _, id := range []uint32{2, 9, 5, 9, 1<<31 - 1, 11} {
				f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, f.head(m.one))
			}
			return f
		}),
	}
}

// fill opens calls, and sends on each the beginning of a message of 4 MB, as far as the windows
// let it.
func (m methods) fill(calls int) string {
	f := hello()
	for range calls {
		id := f.call(m.one)
		f.frame(http2.FrameData, 0, id, []byte{0, 0, 0x3f, 0xff, 0xff})
		f.times(3, func(f *frames) { f.frame(http2.FrameData, 0, id, make([]byte, 16_000)) })
	}
	return f.String()
}

// unpacks sends calls whose messages are the text when they are unpacked.
func (m methods) unpacks(idea string, text []byte) attack {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(text)
	_ = z.Close()
	return attack{idea: idea, most: oneCaller, run: func(a *arena) {
		f := hello()
		for range 8 {
			id := f.call(m.one, "grpc-encoding", "gzip")
			for rest := message(1, packed.Bytes()); len(rest) > 0; {
				n := min(16_000, len(rest))
				f.frame(http2.FrameData, 0, id, rest[:n])
				rest = rest[n:]
			}
		}
		for range 16 {
			conn := a.dial()
			drain(conn)
			send(conn, f.String())
		}
	}}
}

func (m methods) messages() []attack {
	return []attack{
		{idea: "messages of 4 MB that do not end, on 20 calls of each connection", own: true, most: oneCaller, run: func(a *arena) { a.atOnce(200, m.fill(20)) }},
		{idea: "the same of two users", from: []int{bad, worse}, most: allCallers, run: func(a *arena) { a.atOnce(200, m.fill(20)) }},
		{idea: "the same of a user without a grant", from: []int{stranger}, most: strangers, run: func(a *arena) { a.atOnce(100, m.fill(20)) }},
		{idea: "messages whose last byte is missing, on 1,000 calls of each connection", most: oneCaller, own: true, run: func(a *arena) {
			a.atOnce(16, hello().times(1000, func(f *frames) {
				text := message(0, request("acme/echo", strings.Repeat("1", 800)))
				f.frame(http2.FrameData, 0, f.call(m.one), text[:len(text)-1])
			}).String())
		}},
		floods("messages that say they have 4 GiB", 8, func() *frames {
			return hello().times(100, func(f *frames) { f.frame(http2.FrameData, 0, f.call(m.one), []byte{0, 0xff, 0xff, 0xff, 0xff}) })
		}),
		floods("messages that are compressed, and say not how", 8, func() *frames {
			return hello().times(100, func(f *frames) {
				f.frame(http2.FrameData, http2.FlagDataEndStream, f.call(m.one), message(1, []byte("x")))
			})
		}),
		m.unpacks("messages that unpack to 64 MiB", bytes.Repeat([]byte("1"), 64*mib)),
		m.unpacks("messages of 2 million empty arguments", bytes.Repeat([]byte{0x12, 0}, 2_000_000)),
		floods("messages that are no protobuf", 8, func() *frames {
			return hello().times(200, func(f *frames) { f.whole(m.one, bytes.Repeat([]byte{0xff}, 50)) })
		}),
		floods("groups in groups of protobuf", 8, func() *frames {
			return hello().times(20, func(f *frames) { f.whole(m.one, bytes.Repeat([]byte{0x0b}, 15_000)) })
		}),
		floods("many messages where there is one", 8, func() *frames {
			return hello().times(10, func(f *frames) {
				id := f.call(m.one)
				f.times(1000, func(f *frames) { f.frame(http2.FrameData, 0, id, message(0, nil)) })
			})
		}),
		floods("calls with more arguments than they may have", 8, func() *frames {
			return hello().times(10, func(f *frames) {
				f.whole(m.one, request("acme/echo", strings.Split(strings.Repeat("1,", 5000), ",")...))
			})
		}),
	}
}

func (m methods) streams() []attack {
	noWindow := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}
	big := request("acme/big")
	return []attack{
		{idea: "calls that are reset at once, without end", most: strangers, run: func(a *arena) {
			text := hello().times(5000, func(f *frames) {
				f.frame(http2.FrameRSTStream, 0, f.call(m.one), []byte{0, 0, 0, 8})
			}).String()
			for range 32 {
				conn := a.dial()
				drain(conn)
				send(conn, text)
			}
		}},
		floods("resets of calls that there are not", 8, func() *frames {
			return hello().times(20_000, func(f *frames) { f.frame(http2.FrameRSTStream, 0, 99, []byte{0, 0, 0, 8}) })
		}),
		{idea: "calls without messages, as many as there may be", own: true, most: oneCaller, run: func(a *arena) {
			a.atOnce(16, hello().times(1500, func(f *frames) { f.call(m.one) }).String())
		}},
		{idea: "streams of calls without messages", own: true, most: oneCaller, run: func(a *arena) {
			a.atOnce(16, hello().times(1000, func(f *frames) { f.call(m.many) }).String())
		}},
		{idea: "replies of 1 MB, and no window for them", most: oneCaller, run: func(a *arena) {
			a.atOnce(32, hello(noWindow).times(20, func(f *frames) { f.whole(m.one, big) }).String())
		}},
		{idea: "the same, and a window of a byte", most: oneCaller, run: func(a *arena) {
			a.atOnce(64, hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}).times(20, func(f *frames) { f.whole(m.one, big) }).String())
		}},
		{idea: "replies of 1 MB that nobody reads from the socket", most: oneCaller, run: func(a *arena) {
			f := hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}).frame(http2.FrameWindowUpdate, 0, 0, []byte{0x7f, 0, 0, 0})
			a.atOnce(32, f.times(20, func(f *frames) { f.whole(m.one, big) }).String())
		}},
		{idea: "lists that nobody reads", most: oneCaller, run: func(a *arena) {
			a.atOnce(16, hello(noWindow).times(300, func(f *frames) { f.whole(m.list, nil) }).String())
		}},
		{idea: "health checks that nobody reads, of a user without a grant", from: []int{stranger}, most: strangers, run: func(a *arena) {
			a.atOnce(16, hello(noWindow).times(500, func(f *frames) { f.whole(checkAll, nil) }).String())
		}},
		{idea: "watches of the health", from: []int{bad, stranger}, most: oneCaller, run: func(a *arena) {
			a.atOnce(16, hello().times(600, func(f *frames) { f.whole(watchAll, nil) }).String())
		}},
		{idea: "descriptions of the service, and nobody reads them", most: oneCaller, run: func(a *arena) {
			ask := message(0, append([]byte{0x22, byte(len(m.service))}, m.service...)) // file_containing_symbol
			a.atOnce(16, hello(noWindow).times(20, func(f *frames) {
				id := f.call(reflect)
				f.times(20, func(f *frames) { f.frame(http2.FrameData, 0, id, ask) })
			}).String())
		}},
		{idea: "calls of a user without a grant", from: []int{stranger}, run: func(a *arena) {
			if got := a.answers(hello().times(50, func(f *frames) { f.whole(m.one, request("acme/echo", "77777")) }).String()); strings.Contains(got, "77777") {
				a.Errorf("got %.200q", got)
			}
		}},
		{idea: "calls whose client is gone at once", most: oneCaller, run: func(a *arena) {
			text := hello().times(100, func(f *frames) { f.whole(m.one, big) }).String()
			for range 100 {
				conn := a.dial()
				send(conn, text)
				_ = conn.Close()
			}
		}},
		floods("HTTP/2 with nothing but closed calls", 8, func() *frames {
			f := hello()
			f.whole(m.one, request("acme/echo", "1"))
			return f.times(1000, func(f *frames) { f.frame(http2.FrameData, 0, 1, []byte("late")) })
		}),
	}
}
