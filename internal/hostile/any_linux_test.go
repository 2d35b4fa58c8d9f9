package hostile

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
)

func anyAttacks() []attack {
	return append(connections(), admin()...)
}

// idle is an attack that opens more connections than there may be, as the users.
func idle(idea, socket, data string, users ...int) attack {
	return attack{family: "Connections", idea: idea, socket: socket, from: users, most: strangers, own: true, run: func(a *arena) {
		a.each(fileLimit*3/4+100, data)
	}}
}

// together is an attack of users each of whom takes all the connections that it gets.
func together(idea, socket string) attack {
	return attack{idea: idea, socket: socket, most: strangers, own: true, run: func(a *arena) {
		for i := range crowd {
			a.from = []int{crowdFirst + i}
			a.each(fileLimit>>i+10, "")
		}
	}}
}

func connections() []attack {
	unix := []attack{
		idle("idle on resp.sock, more than there may be", "resp", command("PING"), bad),
		idle("idle on http.sock, more than there may be", "http", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", bad),
		idle("idle on grpc.sock, more than there may be", "grpc", http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00", bad),
		idle("idle on spop.sock, more than there may be", "spop", spopHello("async"), bad),
		idle("silent on resp.sock, of two users", "resp", "", bad, worse),
		idle("silent on http.sock, of two users", "http", "", bad, worse),
		idle("silent on grpc.sock, of two users", "grpc", "", bad, worse),
		idle("silent on spop.sock, of two users", "spop", "", bad, worse),
		together("silent on resp.sock, of eight users together", "resp"),
		together("silent on http.sock, of eight users together", "http"),
		together("silent on grpc.sock, of eight users together", "grpc"),
		together("silent on spop.sock, of eight users together", "spop"),
		idle("idle on resp.sock, of a user without a grant", "resp", "", stranger),
		idle("idle on http.sock, of a user without a grant", "http", "", stranger),
		idle("idle on grpc.sock, of a user without a grant", "grpc", "", stranger),
		idle("idle on spop.sock, of a user without a grant", "spop", "", stranger),
	}
	for _, socket := range []string{"resp", "http", "grpc", "spop"} {
		unix = append(unix,
			attack{idea: "connections to " + socket + ".sock that end at once", socket: socket, own: true, run: func(a *arena) {
				for range 500 {
					_ = a.dial().Close()
				}
			}},
			attack{idea: "connections to " + socket + ".sock that are closed for reading, or for writing", socket: socket, own: true, run: func(a *arena) {
				for i := range 200 {
					conn := a.dial().(*net.UnixConn)
					if i%2 == 0 {
						_ = conn.CloseRead()
					} else {
						_ = conn.CloseWrite()
					}
					send(conn, begin(socket))
				}
			}},
			attack{idea: "descriptors that come along with the bytes to " + socket + ".sock", socket: socket, own: true, run: descriptorsAlong},
			attack{idea: "urgent bytes to " + socket + ".sock", socket: socket, own: true, run: urgent},
		)
	}
	for i := range unix {
		unix[i].family = "Connections"
	}
	return unix
}

// begin is how a call begins over the protocol.
func begin(socket string) string {
	switch socket[strings.LastIndex(socket, "/")+1:] {
	case "resp":
		return command("PING") + halfCall
	case "spop":
		return spopHello("async") + "\x00\x00"
	case "http":
		return post + "Content-Length: 10\r\n\r\n1"
	}
	return hello().String()
}

// descriptorsAlong sends descriptors, as one process does to another.
func descriptorsAlong(a *arena) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		a.Fatal(err)
	}
	defer null.Close()
	fds := make([]int, 200)
	for i := range fds {
		fds[i] = int(null.Fd())
	}
	rights := unix.UnixRights(fds...)
	for range 20 {
		conn := a.dial().(*net.UnixConn)
		drain(conn)
		for _, b := range begin(a.socket) {
			if _, _, err := conn.WriteMsgUnix([]byte(string(b)), rights, nil); err != nil {
				break
			}
		}
	}
}

// urgent sends bytes out of band.
func urgent(a *arena) {
	for range 100 {
		conn := a.dial().(*net.UnixConn)
		drain(conn)
		raw, err := conn.SyscallConn()
		if err != nil {
			a.Fatal(err)
		}
		for _, part := range strings.SplitAfterN(begin(a.socket), "\n", 3) {
			send(conn, part)
			_ = raw.Control(func(fd uintptr) { _ = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB|unix.MSG_DONTWAIT, nil) })
		}
	}
}

func admin() []attack {
	all := []attack{
		{idea: "idle, more than there may be", run: func(a *arena) { a.each(1000, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") }},
		{idea: "silent, more than there may be", run: func(a *arena) { a.each(1000, "") }},
		{idea: "heads that do not end", run: func(a *arena) { a.each(500, "GET /metrics HTTP/1.1\r\nHost: x\r\n"+headers(100, 100)) }},
		{idea: "bodies that nobody wants, and that do not end", run: func(a *arena) {
			a.atOnce(300, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("1", 10_000))
		}},
		{idea: "metrics that nobody reads", most: strangers, run: func(a *arena) {
			a.atOnce(150, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 50))
		}},
		{idea: "metrics of tenants", run: func(a *arena) {
			if got := a.answers("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "go_goroutines") || strings.Contains(got, `tenant="`) {
				a.Errorf("got %.300q", got)
			}
		}},
		{idea: "paths that there are not", run: func(a *arena) {
			for _, path := range []string{"/debug/pprof/heap", "/v1/scripts", "/../etc/passwd", "/" + strings.Repeat("a", 100_000)} {
				if got := a.answers(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)); strings.HasPrefix(got, "HTTP/1.1 200") {
					a.Errorf("%.40s got %.200q", path, got)
				}
			}
		}},
	}
	for i := range all {
		all[i].family, all[i].socket = "The admin address", "admin"
	}
	return all
}
