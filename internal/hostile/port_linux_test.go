package hostile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// Tokens of the callers of the HTTP port, who may use what the users of the same names may.
const (
	goodToken = "token-of-the-caller-who-means-well"
	badToken  = "token-of-the-caller-who-does-not"
)

// callersFile writes the file of the callers.
func callersFile(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "callers.yaml")
	text := fmt.Sprintf("callers:\n- {name: good, tokens: ['sha256:%x'], tenants: ['*']}\n- {name: bad, tokens: ['sha256:%x'], tenants: [acme, iso]}\n",
		sha256.Sum256([]byte(goodToken)), sha256.Sum256([]byte(badToken)))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// overPort calls over the HTTP port.
func overPort(address, ref string) caller {
	return overHTTPWith(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}, ref, http.Header{"Scriptorium-Token": {goodToken}})
}

// shows is a request, which ends with the headers of its head, with the token.
func shows(head, token string) string { return head + "Scriptorium-Token: " + token + "\r\n" }

// denied fails unless the agent runs none of the requests.
func denied(idea string, texts ...string) attack {
	return attack{idea: idea, run: func(a *arena) {
		for _, text := range texts {
			if got := a.answers(text); strings.Contains(got, "HTTP/1.1 2") {
				a.Errorf("%.200q got %.500q", text, got)
			}
		}
	}}
}

// onlyFirst fails if the agent runs more than the first request that the text holds.
func onlyFirst(idea string, texts ...string) attack {
	return attack{idea: idea, run: func(a *arena) {
		for _, text := range texts {
			if got := a.answers(text); strings.Count(got, "HTTP/1.1 200") > 1 || strings.Contains(got, "hidden") {
				a.Errorf("%.200q got %.500q", text, got)
			}
		}
	}}
}

func portAttacks() []attack {
	all := slicesOf("HTTP port: strangers", portStrangers())
	all = append(all, slicesOf("HTTP port: callers", portCallers())...)
	for i := range all {
		all[i].socket = "port"
	}
	return all
}

func portStrangers() []attack {
	body := func(head string) string { return head + "Content-Length: 1\r\n\r\n1" }
	return []attack{
		{idea: "silent, more than there may be", run: func(a *arena) { a.each(fileLimit+100, "") }},
		{idea: "silent, while users have all connections to http.sock that they get", most: strangers, run: func(a *arena) {
			for i := range crowd {
				for range fileLimit>>i + 10 {
					conn, err := a.target.connect("http", crowdFirst+i)
					if err != nil {
						a.Fatal(err)
					}
					a.conns = append(a.conns, conn)
				}
			}
			a.each(fileLimit, "")
		}},
		{idea: "heads that do not end", most: strangers, run: func(a *arena) { a.atOnce(900, post+headers(30, 1000)) }},
		{idea: "heads of short lines that do not end", run: func(a *arena) { a.each(600, post+strings.Repeat("a:\r\n", 7000)) }},
		{idea: "tokens in heads that do not end", run: func(a *arena) { a.each(600, shows(post, badToken)) }},
		{idea: "bodies of 1 MB", most: strangers, run: func(a *arena) {
			a.atOnce(300, post+fmt.Sprintf("Content-Length: %d\r\n\r\n", mib)+strings.Repeat("1", mib-1))
		}},
		{idea: "tokens that are guessed", run: func(a *arena) {
			for i := range 1000 {
				conn := a.dial()
				drain(conn)
				send(conn, body(shows(post, fmt.Sprintf("%s-%d", badToken, i))))
			}
		}},
		{idea: "tokens without end", most: strangers, run: func(a *arena) { a.atOnce(300, shows(post, strings.Repeat("a", 30_000))+"\r\n") }},
		denied("tokens elsewhere",
			body(post+"Authorization: Bearer "+badToken+"\r\n"), body(post+"Cookie: Scriptorium-Token="+badToken+"\r\n"), body(post+"Scriptorium_Token: "+badToken+"\r\n"),
			body(strings.Replace(post, "echo", "echo?Scriptorium-Token="+badToken, 1)), body(post+"Scriptorium-Token:\r\n "+badToken[:10]+"\r\n "+badToken[10:]+"\r\n"),
			post+"Transfer-Encoding: chunked\r\nTrailer: Scriptorium-Token\r\n\r\n1\r\n1\r\n0\r\n"+shows("", badToken)+"\r\n"),
		denied("several tokens", body(shows(shows(post, badToken), badToken)), body(shows(shows(post, goodToken), badToken)), body(shows(post, goodToken+", "+badToken)), body(shows(post, badToken+"\x00")), body(shows(post, ""))),
		denied("HTTP/2 without asking", http2.ClientPreface+strings.Repeat("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", 5000),
			http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+strings.Repeat("\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08", 5000),
			shows("GET /v1/none HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", badToken)+"\r\n"+http2.ClientPreface),
		sends("other protocols", command("PING"), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\x00", 500), "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n"+body(post), everyByte()),
		{idea: "connections that end at once", run: func(a *arena) {
			for i := range 1000 {
				conn := a.dial().(*net.TCPConn)
				if i%2 == 0 {
					_ = conn.SetLinger(0) // with a reset
				}
				_ = conn.Close()
			}
		}},
	}
}

func portCallers() []attack {
	const mine = "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nScriptorium-Token: " + badToken + "\r\n"
	const hidden = "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n\"hidden\""
	chunked := mine + "Transfer-Encoding: chunked\r\n"
	big := strings.Replace(mine, "echo", "big", 1) + "Content-Length: 0\r\n\r\n"
	return []attack{
		{idea: "idle, more than there may be", most: strangers, run: func(a *arena) { a.each(fileLimit, mine+"Content-Length: 1\r\n\r\n1") }},
		{idea: "heads that do not end behind a request", most: strangers, run: func(a *arena) {
			a.each(600, mine+"Content-Length: 1\r\n\r\n1"+post+headers(20, 1000))
		}},
		{idea: "bodies of 1 MB whose last byte is missing", most: oneCaller, run: func(a *arena) {
			a.atOnce(400, mine+fmt.Sprintf("Content-Length: %d\r\n\r\n", mib)+strings.Repeat("1", mib-1))
		}},
		{idea: "answers of 1 MB that nobody reads", most: oneCaller, run: func(a *arena) { a.atOnce(300, big) }},
		{idea: "requests without end on one connection", most: strangers, run: func(a *arena) {
			a.atOnce(64, strings.Repeat(mine+"Content-Length: 1\r\n\r\n1", 2000))
		}},
		denied("tenants of others", strings.Replace(mine, "acme", "shop", 1)+"Content-Length: 1\r\n\r\n1", strings.Replace(mine, "execute/acme", "decide/shop", 1)+"\r\n",
			strings.Replace(mine, "execute/acme/echo", "decide/event=pre-route/shop", 1)+"\r\n"),
		onlyFirst("a request without a token behind one", mine+"Content-Length: 1\r\n\r\n1"+hidden,
			mine+"Content-Length: 0\r\nContent-Length: 300\r\n\r\n"+hidden, mine+"Content-Length: +0\r\n\r\n"+hidden, chunked+"Content-Length: 300\r\n\r\n0\r\n\r\n"+hidden,
			mine+"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"+hidden, mine+"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"+hidden, mine+"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n"+hidden,
			strings.Replace(chunked, "1.1", "1.0", 1)+"\r\n0\r\n\r\n"+hidden, chunked+"\r\n1\r\n1\r\n0\r\n"+shows("", badToken)+"\r\n"+hidden),
		{idea: "metrics and lists of other tenants", run: func(a *arena) {
			for _, path := range []string{"/metrics", "/v1/scripts"} {
				got := a.answers(shows("GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", badToken) + "\r\n")
				if !strings.HasPrefix(got, "HTTP/1.1 200") || strings.Contains(got, "shop") || bytes.Contains([]byte(got), []byte(badToken)) {
					a.Errorf("%s got %.300q", path, got)
				}
			}
		}},
	}
}
