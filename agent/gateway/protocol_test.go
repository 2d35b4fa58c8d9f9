package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// These tests hold the tables of docs/protocol.md against the sockets that run scripts by calls.

// server is what the sockets' servers have in common.
type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

// socket serves s on a socket and returns its path.
func socket(t *testing.T, s server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := gateway.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		<-served
	})
	return path
}

var silent = slog.New(slog.DiscardHandler)

// sockets are three of an agent.
type sockets struct {
	resp string // the path
	http *http.Client
	grpc agentv1.ExecutorClient
}

func serveAll(t *testing.T, x gateway.Executor) sockets {
	t.Helper()
	httpPath := socket(t, httpsock.New(httpsock.Options{Executor: x, Logger: silent}))
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", httpPath)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	conn, err := grpc.NewClient("unix:"+socket(t, grpcsock.New(grpcsock.Options{Executor: x, Logger: silent})),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return sockets{
		resp: socket(t, respsock.New(respsock.Options{Executor: x, Logger: silent})),
		http: &http.Client{Transport: transport},
		grpc: agentv1.NewExecutorClient(conn),
	}
}

// table returns the rows of that section of the page that have so many cells, by their
// first cell.
func table(t *testing.T, section string, cells int) map[string][]string {
	t.Helper()
	text, err := page.ReadSection("../../docs/protocol.md", section)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, row := range page.Rows(text) {
		if len(row) == cells {
			rows[row[0]] = row[1:]
		}
	}
	return rows
}

// sameRows fails if the page has other rows than the test has requests for.
func sameRows[V any](t *testing.T, rows map[string][]string, requests map[string]V) {
	t.Helper()
	onPage, tested := slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(requests))
	if !slices.Equal(onPage, tested) {
		t.Fatalf("the page has the rows\n%q\nand the test has\n%q", onPage, tested)
	}
}

// code reads the name of a gRPC code, such as `NOT_FOUND`.
func code(t *testing.T, cell string) codes.Code {
	t.Helper()
	var c codes.Code
	if err := c.UnmarshalJSON([]byte(strconv.Quote(strings.Trim(cell, "`")))); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDocumentedKinds(t *testing.T) {
	s := serveAll(t, gatewaytest.New())
	rows := table(t, "Errors", 5)
	requests := map[string]script.Kind{}
	for _, kind := range []script.Kind{
		script.NotFound, script.Disabled, script.Script, script.Timeout, script.Limit, script.Overloaded,
		script.Denied, script.Invalid, script.Unavailable, script.Internal,
	} {
		requests["`"+string(kind)+"`"] = kind
	}
	sameRows(t, rows, requests)
	for cell, kind := range requests {
		prefix, httpStatus, grpcCode := strings.Trim(rows[cell][1], "`"), rows[cell][2], code(t, rows[cell][3])
		arg := strconv.Quote(string(kind))
		if got, _ := s.ask(t, command("FCALL", "acme/kind", "0", arg)); !strings.HasPrefix(got, prefix+" ") {
			t.Errorf("%s over RESP: %q, the page says %s", kind, got, prefix)
		}
		got := s.post(t, post{body: arg, path: "acme/kind"})
		if strconv.Itoa(got.status) != httpStatus || got.kind != kind {
			t.Errorf("%s over HTTP: %d of kind %s, the page says %s", kind, got.status, got.kind, httpStatus)
		}
		_, err := s.grpc.Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/kind", Args: [][]byte{[]byte(arg)}})
		if status.Code(err) != grpcCode || script.KindOf(wire.FromStatus(err)) != kind {
			t.Errorf("%s over gRPC: %v of kind %s, the page says %v", kind, status.Code(err), script.KindOf(wire.FromStatus(err)), grpcCode)
		}
	}
}

// TestDocumentedConflict: the registry's API has one kind more.
func TestDocumentedConflict(t *testing.T) {
	text, err := page.ReadSection("../../docs/protocol.md", "Errors")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("adds `CONFLICT`[^(]*\\((`[A-Z_]+`)\\)").FindStringSubmatch(text)
	if m == nil {
		t.Fatal("the page does not say what code CONFLICT has")
	}
	if got := status.Code(wire.ToStatus(script.Errorf(script.Conflict, "", "no"))); got != code(t, m[1]) {
		t.Errorf("CONFLICT is %v, the page says %s", got, m[1])
	}
}

// unheard is an agent that has not heard from a registry since it started.
type unheard struct{ *gatewaytest.Executor }

func (u unheard) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	err := u.Executor.Execute(ctx, call, reply)
	reply.Position.Staleness = -1
	return err
}

// TestUnknownStaleness: no protocol has a number for a staleness that is not known.
func TestUnknownStaleness(t *testing.T) {
	s := serveAll(t, unheard{gatewaytest.New()})
	reply := "*4\r\n:7\r\n$71\r\n" + gatewaytest.DigestOf(script.Name{Tenant: "acme", Script: "echo"}).String() + "\r\n$-1\r\n*1\r\n$1\r\n1\r\n"
	conn, err := net.Dial("unix", s.resp)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := make([]byte, len(reply))
	_, _ = io.WriteString(conn, command("SCRIPTORIUM.CALL", "acme/echo", "1", "1"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != reply {
		t.Errorf("RESP: %q, %v", got, err)
	}
	if got := s.post(t, post{path: "acme/echo"}).staleness; got != "unknown" {
		t.Errorf("HTTP: %q", got)
	}
	resp, err := s.grpc.Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo"})
	if err != nil || resp.GetStaleness() != nil {
		t.Errorf("gRPC: %v, %v", resp.GetStaleness(), err)
	}
}

// ask writes a request to the RESP socket. It returns the first line of the reply, and
// whether the connection is closed then.
func (s *sockets) ask(t *testing.T, request string) (line string, closed bool) {
	t.Helper()
	conn, err := net.Dial("unix", s.resp)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go io.WriteString(conn, request+command("PING")) // all of it may not be taken
	r := bufio.NewReader(conn)
	line, err = r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pong, _ := r.ReadString('\n')
	return strings.TrimSpace(line), pong != "+PONG\r\n"
}

func command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

func TestDocumentedRESPErrors(t *testing.T) {
	s := serveAll(t, gatewaytest.New())
	const section = "RESP: `resp.sock`"
	large := strings.Repeat("x", 1<<20)
	requests := map[string]string{
		"a call with more than 1,024 arguments":    command(append([]string{"FCALL", "acme/echo", "0"}, make([]string, 1025)...)...),
		"a call with keys":                         command("FCALL", "acme/echo", "1", "key"),
		"a command that does not exist":            command("GET", "key"),
		"`MULTI`, `DISCARD`, `WATCH` or `UNWATCH`": command("MULTI"),
		"the command `EXEC`":                       command("EXEC"),
		"an argument of more than 1,049,600 bytes": command("FCALL", "acme/echo", "0", strings.Repeat("x", 1_049_601)),
		"a command of more than 4,194,304 bytes":   command("FCALL", "acme/echo", "0", large, large, large, large),
		"bytes that are not RESP":                  "*x\r\n",
	}
	rows := table(t, section, 3)
	sameRows(t, rows, requests)
	for name, request := range requests {
		prefix, closes := strings.Trim(rows[name][0], "`"), rows[name][1] == "is closed"
		if line, closed := s.ask(t, request); !strings.HasPrefix(line, prefix) || closed != closes {
			t.Errorf("%s: %.200q, closed %t; the page says %q", name, line, closed, rows[name])
		}
	}
	if line, _ := s.ask(t, command("FCALL", "acme/echo", "0", strings.Repeat("x", 1_049_600))); line != "$1049600" {
		t.Errorf("the largest argument: %.200q", line)
	}
}

// post is a request over HTTP; a field without a value has the usual one.
type post struct{ method, path, body, contentType, timeout string }

type answer struct {
	status    int
	kind      script.Kind
	staleness string
}

func (s *sockets) post(t *testing.T, p post) answer {
	t.Helper()
	if p.method == "" {
		p.method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), p.method, "http://agent/v1/execute/"+p.path, strings.NewReader(p.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": p.contentType, "Scriptorium-Timeout": p.timeout} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var failure struct{ Error struct{ Kind script.Kind } }
	if resp.StatusCode != http.StatusOK {
		if err := json.Unmarshal(text, &failure); err != nil {
			t.Errorf("%+.300v: %.300s: %v", p, text, err)
		}
	}
	return answer{resp.StatusCode, failure.Error.Kind, resp.Header.Get(httpsock.HeaderStaleness)}
}

// curlDefault is the content type of curl -d.
const curlDefault = "application/x-www-form-urlencoded"

func TestDocumentedHTTPStatuses(t *testing.T) {
	s := serveAll(t, gatewaytest.New())
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	if err := parts.WriteField("a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := parts.Close(); err != nil {
		t.Fatal(err)
	}
	requests := map[string]post{
		"JSON, as `curl -d '{\"a\":1}'` sends it":       {body: `{"a":1}`, contentType: curlDefault},
		"form data, as `curl -d a=1` sends it":          {body: "a=1", contentType: curlDefault},
		"form data, as `curl -F a=1` sends it":          {body: form.String(), contentType: parts.FormDataContentType()},
		"another `Content-Type`, such as `text/xml`":    {body: "<a/>", contentType: "text/xml"},
		"a body of more than 1,048,576 bytes":           {body: strings.Repeat(" ", 1_048_577)},
		"a method other than `POST`":                    {method: http.MethodPut, body: "1"},
		"a path that does not exist":                    {path: "acme/echo/more"},
		"`{\"args\":…}` with more than 1,024 arguments": {body: `{"args":[` + strings.Repeat("1,", 1024) + `1]}`, contentType: httpsock.ArgsContentType},
		"a `Scriptorium-Timeout` that is no duration":   {timeout: "soon"},
	}
	rows := table(t, "HTTP: `http.sock`", 3)
	maps.DeleteFunc(rows, func(_ string, row []string) bool { return row[0] == "request" || row[0] == "answer" }) // headers
	sameRows(t, rows, requests)
	for name, request := range requests {
		if request.path == "" {
			request.path = "acme/echo"
		}
		got := s.post(t, request)
		if want := rows[name]; strconv.Itoa(got.status) != want[0] || string(got.kind) != strings.Trim(want[1], "`") {
			t.Errorf("%s: %d of kind %q, the page says %q", name, got.status, got.kind, want)
		}
	}
}

// TestCurlSendsJSON: what curl -d sends is read as JSON, and what is no JSON is named so.
func TestCurlSendsJSON(t *testing.T) {
	s := serveAll(t, gatewaytest.New())
	for body, want := range map[string]int{
		"": 200, " ": 200, "{}": 200, " [1]": 200, `"text"`: 200, "7": 200, "-7.5e3 ": 200, "true": 200, "null": 200,
		"a": 415, "a=1&b=2": 415, "7=1": 415, "true=": 415, "=": 415, "'{}'": 415, "null&": 415, "%7B%7D": 415,
	} {
		for _, contentType := range []string{curlDefault, curlDefault + "; charset=utf-8"} {
			if got := s.post(t, post{path: "acme/echo", body: body, contentType: contentType}); got.status != want {
				t.Errorf("%q as %s: %d, want %d", body, contentType, got.status, want)
			}
		}
	}
}

func TestDocumentedGRPCErrors(t *testing.T) {
	s := serveAll(t, gatewaytest.New())
	type call struct {
		args    [][]byte
		headers string // in one field
		options []grpc.CallOption
	}
	requests := map[string]call{
		"a call with more than 1,024 arguments":  {args: make([][]byte, 1025)},
		"a message of more than 4,194,304 bytes": {args: [][]byte{bytes.Repeat([]byte("1"), 4_194_304)}},
		"a compressed message":                   {options: []grpc.CallOption{grpc.UseCompressor(gzip.Name)}},
		"headers of more than 16,384 bytes, as HTTP/2 counts them: 32 bytes a field, its name and its value": {headers: strings.Repeat("x", 16_384)},
	}
	rows := table(t, "gRPC: `grpc.sock`", 2)
	sameRows(t, rows, requests)
	for name, request := range requests {
		ctx := t.Context()
		if request.headers != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-large", request.headers)
		}
		_, err := s.grpc.Execute(ctx, &agentv1.ExecuteRequest{Script: "acme/echo", Args: request.args}, request.options...)
		if want := code(t, rows[name][0]); status.Code(err) != want {
			t.Errorf("%s: %v, the page says %v", name, err, want)
		}
	}
}
