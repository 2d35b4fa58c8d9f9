// Package certtest makes certificate authorities and certificates for tests, as
// files.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority of a test.
type CA struct {
	// File has its certificate, in PEM.
	File string

	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// notBefore is before the clock of a testing/synctest bubble starts.
var notBefore = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

// NewCA makes a CA with its file in a folder of the test.
func NewCA(t *testing.T) *CA {
	t.Helper()
	ca := &CA{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "a CA of a test"},
		NotBefore: notBefore, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca.key = newKey(t)
	ca.cert = ca.sign(template, template, &ca.key.PublicKey, ca.key)
	ca.File = filepath.Join(ca.dir, "ca.crt")
	write(t, ca.File, "CERTIFICATE", ca.cert.Raw)
	return ca
}

// Leaf says what a certificate holds.
type Leaf struct {
	CommonName string
	// DNS names and IPs; loopback and localhost if there are none.
	DNS []string
	IPs []net.IP
	URI string
	// NotAfter is in 12 hours if it is zero.
	NotAfter time.Time
}

// Pair is a certificate and its key, as files and in memory.
type Pair struct {
	Cert, Key   string
	Certificate *x509.Certificate
}

// Issue makes a certificate for servers and clients, and puts it into the files
// name.crt and name.key, in place of what is there.
func (ca *CA) Issue(name string, leaf Leaf) Pair {
	ca.t.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(ca.t), Subject: pkix.Name{CommonName: leaf.CommonName},
		NotBefore: notBefore, NotAfter: leaf.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    leaf.DNS, IPAddresses: leaf.IPs,
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(12 * time.Hour)
	}
	if len(leaf.DNS)+len(leaf.IPs) == 0 {
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	}
	if leaf.URI != "" {
		uri, err := url.Parse(leaf.URI)
		if err != nil {
			ca.t.Fatal(err)
		}
		template.URIs = []*url.URL{uri}
	}
	key := newKey(ca.t)
	pair := Pair{Cert: filepath.Join(ca.dir, name+".crt"), Key: filepath.Join(ca.dir, name+".key")}
	pair.Certificate = ca.sign(template, ca.cert, &key.PublicKey, ca.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	write(ca.t, pair.Key, "PRIVATE KEY", der)
	write(ca.t, pair.Cert, "CERTIFICATE", pair.Certificate.Raw)
	return pair
}

func (ca *CA) sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) *x509.Certificate {
	ca.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		ca.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return cert
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t *testing.T) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// write replaces the file in one step, as those do that renew certificates.
func write(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
