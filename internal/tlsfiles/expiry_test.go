package tlsfiles_test

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
)

// expiries returns what is collected: seconds by connection and certificate.
func expiries(t *testing.T, e *tlsfiles.Expiries) map[string]int64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(e)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, f := range families {
		if f.GetName() != "scriptorium_agent_certificate_expiry_timestamp_seconds" {
			t.Errorf("it is called %s", f.GetName())
		}
		for _, m := range f.GetMetric() {
			all[m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()] = int64(m.GetGauge().GetValue())
		}
	}
	return all
}

// TestExpiries: each connection has its certificates, and a renewed one counts.
func TestExpiries(t *testing.T) {
	old, next := certtest.NewCA(t), certtest.NewCA(t)
	pair := old.Issue("agent", certtest.Leaf{NotAfter: time.Now().Add(time.Hour)})
	e := tlsfiles.NewExpiries("agent")
	if got := expiries(t, e); len(got) != 0 {
		t.Errorf("without files: %v", got)
	}
	var log recorder
	load(t, tlsfiles.Files{CA: old.File, Cert: pair.Cert, Key: pair.Key, Expiries: e, Connection: "registry"}, log.log())
	load(t, tlsfiles.Files{CA: old.File, Expiries: e, Connection: "nats"}, log.log())
	want := map[string]int64{
		"registry own": pair.Certificate.NotAfter.Unix(), "registry ca": notAfter(t, old.File), "nats ca": notAfter(t, old.File),
	}
	if got := expiries(t, e); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	renewed := old.Issue("agent", certtest.Leaf{NotAfter: time.Now().Add(48 * time.Hour)})
	both, err := os.ReadFile(next.File)
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(old.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old.File, append(first, both...), 0o600); err != nil {
		t.Fatal(err)
	}
	want["registry own"] = renewed.Certificate.NotAfter.Unix()
	last := max(notAfter(t, next.File), want["nats ca"])
	want["registry ca"], want["nats ca"] = last, last
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !maps.Equal(expiries(t, e), want) {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("after a renewal: %v, want %v", expiries(t, e), want)
		}
	}
}

// notAfter is of the first certificate in the file.
func notAfter(t *testing.T, file string) int64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert.NotAfter.Unix()
}
