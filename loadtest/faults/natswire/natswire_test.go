package natswire_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/natswire"
)

func TestReadFrame(t *testing.T) {
	const stream = "INFO {\"server_id\":\"x\"}\r\n" +
		"MSG a.b 1 5\r\nhello\r\n" +
		"msg a 2 reply 0\r\n\r\n" +
		"HMSG a.c 3 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" +
		"PING\r\n+OK\r\n-ERR 'no'\r\n"
	r := bufio.NewReader(strings.NewReader(stream))
	var got []string
	var raw bytes.Buffer
	for {
		f, err := natswire.ReadFrame(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %q", f.Verb, f.Subject, f.Payload))
		raw.Write(f.Raw)
	}
	want := []string{
		`INFO  ""`, `MSG a.b "hello"`, `MSG a ""`, `HMSG a.c "NATS/1.0\r\n\r\nhi"`, `PING  ""`, `+OK  ""`, `-ERR  ""`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if raw.String() != stream {
		t.Errorf("the raw frames are %q", raw.String())
	}
}

func TestReadFrameRefuses(t *testing.T) {
	for _, stream := range []string{
		"\r\n", "MSG a 1\r\n", "MSG a 1 -1\r\n", "MSG a 1 99999999999\r\n", "MSG a 1 2 3 4\r\nbody\r\n",
		"MSG a 1 5\r\nhelloXX", "MSG a 1 5\r\nhel", "MSG a", strings.Repeat("x", 100<<10),
	} {
		if f, err := natswire.ReadFrame(bufio.NewReader(strings.NewReader(stream))); err == nil {
			t.Errorf("%.40q is read as %+v", stream, f)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("MSG a 1 5\r\nhello\r\nPING\r\n"))
	f.Add([]byte("HMSG a 1 r 0 0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		var raw []byte
		for {
			frame, err := natswire.ReadFrame(r)
			if err != nil {
				break
			}
			raw = append(raw, frame.Raw...)
		}
		if !bytes.HasPrefix(data, raw) {
			t.Errorf("the frames %q are not what was sent", raw)
		}
	})
}

// messages are the frames of the numbers from 1 to n.
func messages(n int) []string {
	list := make([]string, n)
	for i := range n {
		text := fmt.Sprint(i + 1)
		list[i] = fmt.Sprintf("MSG s 1 %d\r\n%s\r\n", len(text), text)
	}
	return list
}

// mangle sends n messages through a mangler and returns what arrives of them.
func mangle(t *testing.T, odds natswire.Odds, n int) []string {
	t.Helper()
	m := natswire.NewMangler(1)
	m.Set(odds)
	server, toMangler := net.Pipe()
	fromMangler, client := net.Pipe()
	go func() {
		_ = m.Pump(client, server)
		_ = client.Close()
	}()
	go func() {
		for _, frame := range messages(n) {
			_, _ = io.WriteString(toMangler, frame)
		}
		_, _ = io.WriteString(toMangler, "PING\r\n")
	}()
	var got []string
	r := bufio.NewReader(fromMangler)
	_ = fromMangler.SetReadDeadline(time.Now().Add(30 * time.Second))
	for pinged := false; !pinged || len(got) < n && odds.Drop == 0; {
		f, err := natswire.ReadFrame(r)
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		if f.Message() {
			got = append(got, string(f.Payload))
		}
		pinged = pinged || f.Verb == "PING"
	}
	_ = toMangler.Close()
	return got
}

func TestMangler(t *testing.T) {
	for _, tt := range []struct {
		name string
		odds natswire.Odds
		want string
	}{
		{"pass", natswire.Odds{}, "[1 2 3 4]"},
		{"drop", natswire.Odds{Drop: 1}, "[]"},
		{"double", natswire.Odds{Double: 1}, "[1 1 2 2 3 3 4 4]"},
		{"reorder", natswire.Odds{Reorder: 1}, "[1 2 3 4]"}, // all held, and let go together
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(mangle(t, tt.odds, 4)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	inOrder := fmt.Sprint(mangle(t, natswire.Odds{}, 200))
	if got := fmt.Sprint(mangle(t, natswire.Odds{Reorder: 0.3}, 200)); got == inOrder {
		t.Error("nothing was reordered")
	}
	if got := fmt.Sprint(mangle(t, natswire.Odds{Delay: 0.5, Late: 20 * time.Millisecond}, 200)); got == inOrder {
		t.Error("nothing was delayed")
	}
}

func TestClient(t *testing.T) {
	server, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	address := strings.TrimPrefix(server.URL(), "nats://")
	heard := make(chan string, 10)
	listener, err := natswire.Dial(t.Context(), address, []string{"a.>"}, func(subject string, payload []byte) {
		heard <- subject + "=" + string(payload)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// Once the listener hears itself, its subscription stands.
	if err := listener.Publish("a.self", nil); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "a.self=" {
		t.Fatalf("heard %q", got)
	}
	speaker, err := natswire.Dial(t.Context(), address, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := speaker.Publish("a.b", []byte("line\r\nline")); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "a.b=line\r\nline" {
		t.Errorf("heard %q", got)
	}
	speaker.Close()
	server.Stop()
	<-listener.Done()
}
