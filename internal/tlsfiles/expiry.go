package tlsfiles

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Expiries collects when certificates of a process expire, as a metric. A process has a few of them.
// Nil collects nothing. It is safe for concurrent use.
type Expiries struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	byName map[string]*Material
}

// NewExpiries returns a collector for the part: agent, registry or operator.
func NewExpiries(part string) *Expiries {
	return &Expiries{
		desc: prometheus.NewDesc("scriptorium_"+part+"_certificate_expiry_timestamp_seconds",
			"When a certificate in use expires, by the connection that it is for, and whether it is the own one or a CA. Of several CAs in a file, it is the one that expires last.",
			[]string{"connection", "certificate"}, nil),
		byName: map[string]*Material{},
	}
}

func (e *Expiries) add(name string, m *Material) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.byName[name] = m
}

// Describe implements prometheus.Collector.
func (e *Expiries) Describe(descs chan<- *prometheus.Desc) { descs <- e.desc }

// Collect implements prometheus.Collector.
func (e *Expiries) Collect(metrics chan<- prometheus.Metric) {
	e.mu.Lock()
	byName := maps.Clone(e.byName)
	e.mu.Unlock()
	for name, m := range byName {
		own, ca := m.expiry()
		for certificate, at := range map[string]time.Time{"own": own, "ca": ca} {
			if !at.IsZero() {
				metrics <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(at.Unix()), name, certificate)
			}
		}
	}
}

// expiry returns when the own certificate expires, and the CA's; zero for those that there are not.
func (m *Material) expiry() (own, ca time.Time) {
	_, pair := m.current()
	if pair != nil {
		own = pair.Leaf.NotAfter
	}
	m.mu.Lock()
	bundle := m.content[0]
	m.mu.Unlock()
	return own, lastExpiry(bundle)
}

// lastExpiry is of the certificate of a bundle that expires last.
func lastExpiry(bundle []byte) time.Time {
	var all []time.Time
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, cert.NotAfter)
		}
	}
	if len(all) == 0 {
		return time.Time{}
	}
	return slices.MaxFunc(all, time.Time.Compare)
}
