package gate_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
)

// TestASystemThatTakesConnectionsOnly does not shake hands with those who connect first: they end, and it
// is asked as soon as it does.
func TestASystemThatTakesConnectionsOnly(t *testing.T) {
	needs.Time(t, "waits for ten seconds")
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"pass": true}`) })
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s.sources.Replace(s.both(t, "https://"+listener.Addr().String()))
	const silent = 4 // as many as are asked at a time
	for range silent {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.sources.Ask(ctx, toCI())
		}()
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		cancel()
		<-done
	}
	go pipe(listener, s.Listener.Addr().String())
	var last string
	for range 3 {
		a := s.ask(t, toCI())
		if a.Result == fleet.GatePasses {
			return
		}
		last = a.Text
	}
	t.Errorf("it answers again, and half a minute later: %s", last)
}

// pipe has those who connect to the listener talk to the address.
func pipe(listener net.Listener, address string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
			}()
		}
	}
}
