package obs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
)

// NewMetrics returns a registry of metrics with those of the Go runtime and the
// process in it.
func NewMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Readiness is what /readyz answers.
type Readiness struct {
	Ready bool `json:"ready"`
	// Degraded parts do not keep the process from its work, but want a look.
	Degraded []string `json:"degraded,omitempty"`
	// Reason says why it is not ready.
	Reason string `json:"reason,omitempty"`
}

// Handler serves /healthz (200 while the process runs), /readyz (200 or 503, the
// Readiness as JSON) and /metrics.
func Handler(metrics prometheus.Gatherer, ready func(context.Context) Readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		state := ready(r.Context())
		code := http.StatusOK
		if !state.Ready {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, code, state)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The client is gone when this fails; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(v)
}

// Admin is an HTTP listener for probes and metrics.
type Admin struct {
	server http.Server
	done   chan struct{}
}

// adminConnections are open at a time: one more closes the oldest.
const adminConnections = 128

// ServeAdmin serves handler on ln until Close.
func ServeAdmin(ln net.Listener, handler http.Handler, log *slog.Logger) *Admin {
	a := &Admin{
		server: http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second, // bodies that nobody wants, too
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(a.done)
		if err := a.server.Serve(gateway.NewLatest(adminConnections).Listen(ln)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin listener failed", "error", err)
		}
	}()
	return a
}

// Close stops the listener at once.
func (a *Admin) Close() error {
	err := a.server.Close()
	<-a.done
	return err
}
