package local_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/embed"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
)

// secret is what no record may have. It is in fields that are masked, and scripts return it.
const secret = "CANARY-8d21f0"

const recorded = `apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: route}
spec:
  tenantId: acme
  limits: {timeout: 5s}
  log:
    decisions:
      sample: 1
      mask: [headers.authorization, headers.set-cookie, body, query.token, token]
  source: |
    local function secret(r)
      return r.token or r.headers and r.headers.authorization or "none"
    end
    function handle(r)
      if r.fail or r.path == "/fail" then error("bad: " .. secret(r)) end
      return {headers = {set = {["x-copy"] = secret(r), [secret(r):gsub("[^%w]", "-")] = "1"}}}
    end
    function on_response(request, response)
      return {headers = {set = {["x-copy"] = response.headers["set-cookie"]}}}
    end
`

// clients are those of the protocols of an agent.
type clients struct {
	t   *testing.T
	dir string // of its sockets
}

func (c *clients) resp(command ...string) {
	c.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(c.dir, "resp.sock"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := bufio.NewReader(conn).ReadByte(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clients) http(method, path, body string) {
	c.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.dir, "http.sock"))
	}}}
	req, err := http.NewRequestWithContext(c.t.Context(), method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// envoy makes what Envoy asks by ext_authz and ext_proc, of a path.
func (c *clients) envoy(path string) {
	c.t.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(c.dir, "grpc.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(c.t.Context(), "scriptorium-script", "acme/route", "scriptorium-response", "headers")
	_, err = authv3.NewAuthorizationClient(conn).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{ContextExtensions: map[string]string{"script": "acme/route"}, Request: &authv3.AttributeContext_Request{
		Http: &authv3.AttributeContext_HttpRequest{
			Method: "POST", Host: "shop", Scheme: "http", Path: path + "?a=1&token=" + secret, Body: secret,
			Headers: map[string]string{"authorization": "Bearer " + secret},
		},
	}}})
	if err != nil {
		c.t.Fatal(err)
	}
	stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	send := func(m *procv3.ProcessingRequest) bool {
		if stream.Send(m) != nil {
			return false
		}
		_, err := stream.Recv()
		return err == nil
	}
	headers := func(pairs ...string) *procv3.HttpHeaders {
		h := &corev3.HeaderMap{}
		for i := 0; i < len(pairs); i += 2 {
			h.Headers = append(h.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
		}
		return &procv3.HttpHeaders{Headers: h, EndOfStream: true}
	}
	if send(&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers(
		":method", "GET", ":scheme", "http", ":authority", "shop", ":path", path+"?token="+secret, "authorization", "Bearer "+secret,
	)}}) {
		send(&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers(":status", "200", "set-cookie", "session="+secret)}})
	}
	_ = stream.CloseSend()
}

// spop makes what HAProxy asks, of a path.
func (c *clients) spop(path string) {
	c.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(c.dir, "spop.sock"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	text := func(dst []byte, s string) []byte { return append(append(dst, byte(len(s))), s...) } // which is short
	send := func(kind, stream byte, payload []byte) {
		frame := append([]byte{kind, 0, 0, 0, 1, stream, stream}, payload...)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			c.t.Fatal(err)
		}
		var length [4]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			c.t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length[:]))); err != nil {
			c.t.Fatal(err)
		}
	}
	pair := func(dst []byte, name, value string) []byte { return text(append(text(dst, name), 8), value) }
	hello := pair(nil, "supported-versions", "2.0")
	hello = append(text(hello, "max-frame-size"), 3, 0xfc, 0xf0, 0x06) // 16380
	send(1, 0, pair(hello, "capabilities", ""))
	message := append(text(nil, "scriptorium"), 6)
	message = pair(message, "script", "acme/route")
	message = pair(message, "method", "GET")
	message = pair(message, "path", path)
	message = pair(message, "query", "token="+secret)
	message = pair(message, "headers", "Authorization: Bearer "+secret+"\r\n\r\n")
	send(3, 1, pair(message, "body", "x="+secret))
}

// readRecords returns the records of the files.
func readRecords(t *testing.T, paths ...string) (all []decision.Record) {
	t.Helper()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{secret, secret[7:], "Q0FOQVJZ"} {
			if strings.Contains(string(text), part) {
				t.Errorf("%s has %q:\n%s", path, part, text)
			}
		}
		for line := range strings.Lines(string(text)) {
			var r decision.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, r)
		}
	}
	return all
}

// TestNoRecordHasWhatIsMasked: a secret in masked fields is in no sink, whatever protocol it came over,
// and whatever the script does with it.
func TestNoRecordHasWhatIsMasked(t *testing.T) {
	w := localtest.Start(t, 1, local.WithAgents(func(c *agentd.Config) {
		c.Decisions.Log = []string{"file:" + c.SocketDir + "/one.jsonl;file:" + c.SocketDir + "/two.jsonl"}
	}))
	w.Publish(t, recorded, 1)
	dir := w.Stack.AgentDir(1)
	c := &clients{t: t, dir: dir}
	arguments := []string{
		`{"token":"` + secret + `"}`,
		`{"fail":true,"TOKEN":"x","token":"` + secret + `"}`,
		`{"fail":true,"\u0074oken":"` + secret + `"}`,
		`{"token":"` + secret, // no JSON
		`"{\"token\":\"` + secret + `\"}"`,
		`{"token":["` + secret + `"],"headers":{"authorization":{"a":"` + secret + `"}}}`,
		`{"path":"/","body":"` + secret + `","query":"a&token=` + secret + `"}`,
	}
	grpcClient, err := agentclient.New("unix:" + filepath.Join(dir, "grpc.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer grpcClient.Close()
	cfg := w.Embedded(t, "embedded")
	cfg.DecisionLog = []string{"file:" + filepath.Join(w.Dir, "embedded.jsonl")}
	inside, err := embed.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := inside.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, arg := range arguments {
		c.resp("FCALL", "acme/route", "0", arg)
		c.http(http.MethodPost, "/v1/execute/acme/route", arg)
		_, _ = grpcClient.Call(t.Context(), "acme/route", json.RawMessage(arg))
		_, _ = inside.Call(t.Context(), "acme/route", json.RawMessage(arg))
	}
	for _, path := range []string{"/", "/fail"} {
		c.http(http.MethodGet, "/v1/decide/acme/route"+path+"?token="+secret, "")
		c.envoy(path)
		c.spop(path)
	}
	ctx, cancel := context.WithTimeout(t.Context(), localtest.Patience)
	defer cancel()
	if err := w.Stack.StopAgent(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := inside.Close(ctx); err != nil {
		t.Fatal(err)
	}
	records := readRecords(t, filepath.Join(dir, "one.jsonl"), filepath.Join(w.Dir, "embedded.jsonl"))
	if also := readRecords(t, filepath.Join(dir, "two.jsonl")); len(also) < 7 {
		t.Errorf("the second file has %d records", len(also))
	}
	protocols, masked, onResponse := map[string]int{}, 0, 0
	for _, r := range records {
		protocols[r.Protocol+" "+r.Outcome]++
		if len(r.Masked)+len(r.Erased) > 0 {
			masked++
		}
		if r.OnResponse {
			onResponse++
		}
		if r.Timestamp.Before(time.Now().Add(-time.Hour)) || r.Path != "acme/route" {
			t.Errorf("%+v", r)
		}
	}
	for _, protocol := range []string{"resp", "http", "grpc", "embedded", "ext_authz", "ext_proc", "spop"} {
		if protocols[protocol+" OK"] == 0 || protocols[protocol+" SCRIPT"] == 0 {
			t.Errorf("%s has no records, of success or of failure: %v", protocol, protocols)
		}
	}
	if onResponse == 0 || masked < len(records)*3/4 {
		t.Errorf("%d records are of on_response, %d of %d have something masked", onResponse, masked, len(records))
	}
}
