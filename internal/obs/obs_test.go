package obs_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/internal/obs"
)

func TestAdmin(t *testing.T) {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "answer"}, func() float64 { return 42 }))
	state := obs.Readiness{Reason: "starting"}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin := obs.ServeAdmin(l, obs.Handler(metrics, func(context.Context) obs.Readiness { return state }), slog.New(slog.DiscardHandler))
	check := func(path string, wantCode int, want string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != wantCode || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s, %v; want %d with %q", path, response.StatusCode, body, err, wantCode, want)
		}
	}
	check("/healthz", http.StatusOK, "alive")
	check("/readyz", http.StatusServiceUnavailable, `"reason":"starting"`)
	state = obs.Readiness{Ready: true, Degraded: []string{"NATS"}}
	check("/readyz", http.StatusOK, `"degraded":["NATS"]`)
	check("/metrics", http.StatusOK, "answer 42")
	check("/nonsense", http.StatusNotFound, "")
	if err := admin.Close(); err != nil {
		t.Error(err)
	}
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
		t.Error("it listens after Close")
	}
}

func TestLogOptions(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string // of the line logged at info; "" for none
		err  string
	}{
		{want: `"msg":"hello"`},
		{args: []string{"--log-format=text"}, want: "msg=hello"},
		{args: []string{"--log-level=warn"}},
		{args: []string{"--log-format=xml"}, err: "--log-format"},
	} {
		var options obs.LogOptions
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		options.AddFlags(flags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log, err := options.NewLogger(&out)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v: error %v, want one that names %s", tt.args, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		log.Info("hello")
		if got := out.String(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%v logs %q, want %q", tt.args, got, tt.want)
		}
	}
}
