package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
)

const (
	post = "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\n"
	list = "GET /v1/scripts HTTP/1.1\r\nHost: x\r\n"
)

func httpAttacks() []attack {
	all := slicesOf("HTTP: heads", httpHeads())
	all = append(all, slicesOf("HTTP: bodies", httpBodies())...)
	return append(all, slicesOf("HTTP: answers", httpAnswers())...)
}

// headers returns so many header lines.
func headers(n, size int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "X-%d: %s\r\n", i, strings.Repeat("a", size))
	}
	return b.String()
}

// smuggles fails if the answers show that the agent ran what was hidden in the first request.
func smuggles(idea string, texts ...string) attack {
	const hidden = "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n\"hidden\""
	return attack{idea: idea, own: true, run: func(a *arena) {
		for _, text := range texts {
			text = strings.ReplaceAll(text, "HIDDEN", hidden)
			if got := a.answers(text); strings.Contains(got, "\r\n\r\n\"hidden\"") && strings.Count(got, "HTTP/1.1 200") > 1 {
				a.Errorf("%.200q got %.500q", text, got)
			}
		}
	}}
}

func httpHeads() []attack {
	return []attack{
		{idea: "heads that do not end", own: true, run: func(a *arena) { a.each(600, post+headers(3, 100)) }},
		{idea: "a first byte each", run: func(a *arena) { a.each(900, "P") }},
		{idea: "heads of short lines that do not end", own: true, run: func(a *arena) { a.each(600, post+strings.Repeat("a:\r\n", 7000)) }},
		{idea: "heads of almost 32 KiB that do not end", own: true, most: strangers, run: func(a *arena) { a.atOnce(600, post+headers(30, 1000)) }},
		sends("heads beyond the bound", post+headers(1, 100_000), post+headers(1000, 100)+"\r\n", post+headers(20_000, 0)+"\r\n"),
		sends("request lines beyond the bound", "GET /"+strings.Repeat("a", 200_000)+" HTTP/1.1\r\n\r\n", strings.Repeat("A", 200_000), "GET "+strings.Repeat("%41", 9_000)+" HTTP/1.1\r\nHost: x\r\n\r\n"),
		sends("methods that do not exist", "BREW /v1/scripts HTTP/1.1\r\nHost: x\r\n\r\n", strings.Repeat("G", 20_000)+" / HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"),
		sends("targets of other forms", "GET http://evil/v1/scripts HTTP/1.1\r\nHost: x\r\n\r\n", "GET //v1/scripts HTTP/1.1\r\nHost: x\r\n\r\n", "GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/%2e%2e/%2e%2e/metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/execute/acme%2fecho HTTP/1.1\r\nHost: x\r\n\r\n", "GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n"),
		sends("versions that do not exist", "GET /healthz\r\n\r\n", "GET /healthz HTTP/0.9\r\n\r\n", "GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n", "GET /healthz HTTP/1.1.1\r\n\r\n", "GET /healthz HTTP/\r\n\r\n"),
		sends("lines that end otherwise", "GET /healthz HTTP/1.1\nHost: x\n\n", "GET /healthz HTTP/1.1\rHost: x\r\r", post+"X: a\r\n b\r\n\tc\r\n\r\n", post+"X : a\r\n\r\n", post+": a\r\n\r\n", post+"X\x00: a\r\n\r\n", post+"X: a\x00b\r\n\r\n", post+"X: a\nContent-Length: 5\r\n\r\n"),
		sends("no host, or several", "GET /healthz HTTP/1.1\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: "+strings.Repeat("a", 20_000)+"\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n"),
		sends("HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
		sends("upgrades", "GET /v1/scripts HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "GET /v1/scripts HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"),
		sends("other protocols", command("PING"), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\x00", 500), everyByte()),
		sends("times that a call cannot have", post+"Scriptorium-Timeout: -1s\r\n\r\n", post+"Scriptorium-Timeout: "+strings.Repeat("9", 5000)+"h\r\n\r\n", post+"Scriptorium-Timeout: 1ns\r\nContent-Length: 0\r\n\r\n"),
	}
}

func httpBodies() []attack {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte("1"), 64*mib))
	_ = z.Close()
	length := func(n int, body string) string { return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", post, n, body) }
	chunked := post + "Transfer-Encoding: chunked\r\n"
	return []attack{
		sends("a length and chunks", chunked+"Content-Length: 4\r\n\r\n0\r\n\r\nX", post+"Content-Length: 300\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX"),
		smuggles("two lengths", post+"Content-Length: 0\r\nContent-Length: 300\r\n\r\nHIDDEN", post+"Content-Length: 0, 300\r\n\r\nHIDDEN"),
		smuggles("lengths that are no numbers", post+"Content-Length: +0\r\n\r\nHIDDEN", post+"Content-Length: -1\r\n\r\nHIDDEN", post+"Content-Length: 0x0\r\n\r\nHIDDEN", post+"Content-Length: 18446744073709551616\r\n\r\nHIDDEN", post+"Content-Length:\r\n\r\nHIDDEN"),
		smuggles("codings that are not chunked", post+"Transfer-Encoding: xchunked\r\n\r\nHIDDEN", post+"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nHIDDEN", post+"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\nHIDDEN", post+"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\nHIDDEN", post+"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nHIDDEN"),
		smuggles("chunks in HTTP/1.0", strings.Replace(chunked, "1.1", "1.0", 1)+"\r\n0\r\n\r\nHIDDEN"),
		sends("chunks of absurd sizes", chunked+"\r\nffffffffffffffff\r\n1", chunked+"\r\n-1\r\n", chunked+"\r\n0x1\r\n1\r\n0\r\n\r\n", chunked+"\r\n"+strings.Repeat("0", 100_000)+"1\r\n", chunked+"\r\n1 \r\n1\r\n0\r\n\r\n", chunked+"\r\n2\n11\n0\n\n"),
		sends("extensions of chunks", chunked+"\r\n1;"+strings.Repeat("a", 500_000)+"\r\n1\r\n0\r\n\r\n", chunked+"\r\n"+strings.Repeat("1;a=b\r\n1\r\n", 100_000)+"0\r\n\r\n"),
		sends("chunks of one byte", chunked+"\r\n"+strings.Repeat("1\r\n1\r\n", 200_000)+"0\r\n\r\n"),
		sends("trailers without end", chunked+"\r\n1\r\n1\r\n0\r\n"+headers(20_000, 20), chunked+"Trailer: Content-Length\r\n\r\n1\r\n1\r\n0\r\nContent-Length: 99\r\n\r\n"),
		{idea: "bodies of 1 MB whose last byte is missing", own: true, most: oneCaller, run: func(a *arena) { a.atOnce(400, length(mib, strings.Repeat("1", mib-1))) }},
		{idea: "the same in chunks", own: true, most: oneCaller, run: func(a *arena) {
			a.atOnce(300, chunked+"\r\n"+strings.Repeat("10000\r\n"+strings.Repeat("1", 1<<16)+"\r\n", 15))
		}},
		{idea: "the same of a user without a grant", from: []int{stranger}, most: strangers, run: func(a *arena) { a.atOnce(200, length(mib, strings.Repeat("1", mib-1))) }},
		{idea: "lengths, and no bodies", own: true, run: func(a *arena) { a.each(600, length(mib, "")) }},
		{idea: "bodies that nobody wants", most: strangers, run: func(a *arena) {
			for _, path := range []string{"GET /healthz", "GET /metrics", "POST /nothing", "POST /v1/execute/shop/echo"} {
				a.atOnce(100, path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("1", 900_000))
			}
		}},
		{idea: "Expect: 100-continue, and no body", run: func(a *arena) { a.each(600, post+"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n") }},
		sends("other expectations", post+"Expect: 200-ok\r\nContent-Length: 1\r\n\r\n1", post+"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n"),
		sends("bodies that unpack to 64 MiB", post+"Content-Encoding: gzip\r\nContent-Length: "+fmt.Sprint(bomb.Len())+"\r\n\r\n"+bomb.String()),
		sends("content types that are none", post+"Content-Type: "+strings.Repeat(";a=b", 5000)+"\r\nContent-Length: 1\r\n\r\n1", post+"Content-Type: multipart/form-data; boundary="+strings.Repeat("a", 1000)+"\r\nContent-Length: 1\r\n\r\n1", post+"Content-Type: \xff\r\nContent-Length: 1\r\n\r\n1"),
		{idea: "arguments of 1 MB that are deep JSON", own: true, most: oneCaller, run: func(a *arena) {
			deep := `{"args":[` + strings.TrimSuffix(strings.Repeat(strings.Repeat("[", 500)+strings.Repeat("]", 500)+",", 1000), ",") + `]}`
			a.atOnce(64, post+"Content-Type: application/vnd.scriptorium.args+json\r\n"+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(deep))+deep)
		}},
		sends("arguments without end", post+"Content-Type: application/vnd.scriptorium.args+json\r\nContent-Length: 1000011\r\n\r\n{\"args\":["+strings.Repeat("1,", 500_000)+"1]}", post+"Content-Type: application/vnd.scriptorium.args+json\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat(`{"args":`, 125_000)),
	}
}

func httpAnswers() []attack {
	big := strings.Replace(post, "echo", "big", 1) + "Content-Length: 0\r\n\r\n"
	return []attack{
		{idea: "answers of 1 MB that nobody reads", most: oneCaller, run: func(a *arena) { a.atOnce(300, big) }},
		{idea: "the same, one after the other on each connection", most: oneCaller, run: func(a *arena) { a.atOnce(64, strings.Repeat(big, 200)) }},
		{idea: "requests without end on one connection", most: strangers, run: func(a *arena) { a.atOnce(64, strings.Repeat(post+"Content-Length: 1\r\n\r\n1", 2000)) }},
		{idea: "lists and metrics that nobody reads", own: true, most: strangers, run: func(a *arena) {
			a.atOnce(300, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"+list+"\r\n", 20))
		}},
		{idea: "the same of a user without a grant", from: []int{stranger}, most: strangers, run: func(a *arena) {
			a.atOnce(300, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"+list+"\r\n", 20))
		}},
		{idea: "requests whose clients are gone at once", most: strangers, run: func(a *arena) {
			for range 500 {
				conn := a.dial()
				send(conn, big)
				_ = conn.Close()
			}
		}},
		{idea: "metrics of other tenants", from: []int{stranger, bad}, run: func(a *arena) {
			acme := overRESP(a.target.(*agent).path("resp"), "acme/echo")
			defer acme.close()
			if err := acme.call(1); err != nil {
				a.Error(err)
			}
			for _, sees := range []string{"", `scriptorium_script_counter{counter="calls",tenant="acme"}`} {
				got := a.answers("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
				if !strings.Contains(got, sees) || strings.Contains(got, `tenant="shop"`) || sees == "" && strings.Contains(got, "tenant=") {
					a.Errorf("got %.300q, want %q alone", got, sees)
				}
			}
			if all, err := get("unix", a.target.(*agent).path("http"), "/metrics"); err != nil || !strings.Contains(all, `tenant="shop"`) {
				a.Errorf("a caller that may use all tenants does not see all: %v", err)
			}
		}},
	}
}
