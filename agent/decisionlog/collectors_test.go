package decisionlog_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/deliver"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/natssink"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/opasink"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/otlpsink"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs/logcollector"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// collected are the inputs of the records that a collector got.
type collected struct {
	mu  sync.Mutex
	all map[string]bool
}

func (c *collected) add(r *decision.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]bool{}
	}
	c.all[string(r.Input)] = true
}

func (c *collected) seen() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.all)
}

// collector is one that hangs until it is told to recover.
type collector struct {
	sink    decisionlog.Sink
	seen    func() map[string]bool // the inputs of the records that it got
	recover func()
}

// courier tries often, and gives up an attempt soon.
func courier() deliver.Config {
	return deliver.Config{Timeout: 200 * time.Millisecond, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond}
}

var quiet = slog.New(slog.DiscardHandler)

func hangingOPA(t *testing.T) collector {
	t.Helper()
	hangs := make(chan struct{})
	got := &collected{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hangs:
		case <-r.Context().Done():
			return
		}
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return // of a request that was given up
		}
		var events []decision.Record
		if err := json.NewDecoder(z).Decode(&events); err != nil {
			return
		}
		for i := range events {
			got.add(&events[i])
		}
	}))
	t.Cleanup(server.Close)
	sink, err := opasink.New(opasink.Config{URL: server.URL, Courier: courier(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return collector{sink, got.seen, func() { close(hangs) }}
}

func hangingOTLP(t *testing.T) collector {
	t.Helper()
	c := logcollector.Start(t, logcollector.GRPC)
	c.Always(logcollector.Answer{Hang: true})
	exporter, _, err := otlplogs.NewExporter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := func() map[string]bool {
		var got collected
		for _, record := range c.Records() {
			var r decision.Record
			if err := json.Unmarshal([]byte(record.Body()), &r); err != nil {
				t.Error(err)
			}
			got.add(&r)
		}
		return got.seen()
	}
	sink := otlpsink.New(otlpsink.Config{Exporter: exporter, Courier: courier(), Log: quiet})
	return collector{sink, seen, func() { c.Answer() }}
}

// hangingNATS is a way to a server that lets nothing through at first.
func hangingNATS(t *testing.T) collector {
	t.Helper()
	n, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	opens := make(chan struct{})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				<-opens
				defer in.Close()
				out, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "nats://"))
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in) }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	got := &collected{}
	conn, err := nats.Connect(n.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	_, err = conn.Subscribe("scriptorium.decisions.acme.route.node-1", func(m *nats.Msg) {
		var r decision.Record
		if err := json.Unmarshal(m.Data, &r); err != nil {
			t.Error(err)
		}
		got.add(&r)
	})
	if err != nil || conn.Flush() != nil {
		t.Fatal(err)
	}
	sink, err := natssink.New(natssink.Config{
		URLs: []string{"nats://" + l.Addr().String()}, Subjects: wire.Subjects{Prefix: "scriptorium"}, Agent: "node-1", Courier: courier(), Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	return collector{sink, got.seen, func() { close(opens) }}
}

// TestCollectorsThatHang hold up no call. What there is no room for is dropped and counted, and records
// come again when the collector is back.
func TestCollectorsThatHang(t *testing.T) {
	for name, start1 := range map[string]func(*testing.T) collector{"opa": hangingOPA, "otlp": hangingOTLP, "nats": hangingNATS} {
		t.Run(name, func(t *testing.T) {
			c := start1(t)
			w := start(t, 1, func(cfg *decisionlog.Config) {
				cfg.Outputs[0].Sink, cfg.QueueBytes, cfg.SpoolBytes = c.sink, 64<<10, 0
			})
			w.tenants["acme"] = script.TenantSettings{Decisions: &script.Decisions{Sample: 1}}
			ended := func(input string) {
				e := call("acme", input)
				e.Settings = nil // they are those of the world
				if err := w.Ended(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			const calls = 2000
			began := time.Now()
			for i := range calls {
				ended(fmt.Sprint(i))
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%d calls took %v", calls, took)
			}
			dropped := w.counter(t, "scriptorium_decision_log_dropped_total")
			if dropped < calls/2 || dropped >= calls {
				t.Errorf("%v of %d records were dropped", dropped, calls)
			}
			c.recover()
			eventually(t, func() bool { return w.counter(t, "scriptorium_decision_log_records_total")+dropped == calls })
			ended(`"last"`)
			eventually(t, func() bool { return c.seen()[`"last"`] })
			eventually(t, func() bool { return w.counter(t, "scriptorium_decision_log_records_total")+dropped == calls+1 })
			if got, want := len(c.seen()), calls+1-int(dropped); got != want {
				t.Errorf("the collector has %d records, want %d", got, want)
			}
		})
	}
}
