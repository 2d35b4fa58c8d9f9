package envoy_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
)

// serve serves over a socket, as an agent does, and returns its path and a client.
func serve(tb testing.TB, opts grpcsock.Options) (path string, conn *grpc.ClientConn) {
	tb.Helper()
	if opts.Executor == nil {
		opts.Executor = gatewaytest.New()
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	path = filepath.Join(tb.TempDir(), "grpc.sock")
	l, err := gateway.Listen(path)
	if err != nil {
		tb.Fatal(err)
	}
	s := grpcsock.New(opts)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err = grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("envoy"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		<-served
	})
	return path, conn
}

// decider is an executor whose script acme/d returns a result, and keeps its argument.
type decider struct {
	*gatewaytest.Executor
	mu       sync.Mutex
	result   string
	argument string
	calls    int
}

func newDecider() *decider {
	x := &decider{Executor: gatewaytest.New()}
	x.Set("acme/d", x.decide)
	x.Set("acme/d@7", x.decide)
	return x
}

// decide is the script.
func (x *decider) decide(_ context.Context, call *gateway.Call) ([][]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls++
	x.argument = string(call.Args[0])
	if x.result == "" {
		return nil, nil
	}
	return [][]byte{[]byte(x.result)}, nil
}

// returns sets the result.
func (x *decider) returns(result string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result, x.argument, x.calls = result, "", 0
}

// asked returns how often the script ran, and its last argument.
func (x *decider) asked() (calls int, argument string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls, x.argument
}

// message reads a message in JSON from testdata.
func message[M proto.Message](tb testing.TB, name string, m M) M {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return m
}

// expect compares a message with one in JSON.
func expect(t *testing.T, name string, got, want proto.Message, text string) {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), want); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, protojson.Format(got), protojson.Format(want))
	}
}

// expectRan takes what ran out of the metadata, and compares it.
func expectRan(t *testing.T, name string, metadata *structpb.Struct, want map[string]any) *structpb.Struct {
	t.Helper()
	for _, member := range []string{"scriptorium_version", "scriptorium_chain"} {
		if got := metadata.GetFields()[member].AsInterface(); got != want[member] {
			t.Errorf("%s: the metadata have %v as %s, want %v", name, got, member, want[member])
		}
		delete(metadata.GetFields(), member)
	}
	if len(metadata.GetFields()) == 0 {
		return nil
	}
	return metadata
}

// version is what expectRan gets for a script alone.
var version = map[string]any{"scriptorium_version": 7.0}

// expectVersion is expectRan of an answer of ext_proc, by a script alone.
func expectVersion(t *testing.T, name string, out *procv3.ProcessingResponse) {
	t.Helper()
	if expectRan(t, name, out.GetDynamicMetadata().GetFields()["scriptorium"].GetStructValue(), version) == nil {
		out.DynamicMetadata = nil
	}
}

// expectArgument compares an argument of a script with a file of testdata.
func expectArgument(t *testing.T, got, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%q: %v", got, err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the script got\n%s\nwant\n%s", got, text)
	}
}
