package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"slices"
	"time"
)

// The keys of the Secret.
const (
	bundleKey  = "ca.crt" // the CAs that are believed, the newest first
	caKey      = "ca.key" // of the newest
	certKey    = "tls.crt"
	privateKey = "tls.key"
)

// The times of CAs and certificates.
const (
	caLife   = 365 * 24 * time.Hour
	certLife = 90 * 24 * time.Hour
	// caSpare is how long a CA must still last: its successor is made then, and its
	// certificates end before it does.
	caSpare = 120 * 24 * time.Hour
	// certSpare is how long a certificate must still last.
	certSpare = 30 * 24 * time.Hour
	// announcement is how long a CA is believed before a certificate of it is shown.
	announcement = time.Hour
	// skew is by how much a clock may be slow and still take what was just made.
	skew = time.Hour
)

// material is what a Secret holds, as far as it is any good.
type material struct {
	cas    []*x509.Certificate // that have not ended, the newest first
	signer crypto.Signer       // of the newest; nil if there is none
	cert   *x509.Certificate   // nil if there is none, or its key is not there
}

func parse(data map[string][]byte, now time.Time) material {
	var m material
	for rest := data[bundleKey]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if ca, err := x509.ParseCertificate(block.Bytes); err == nil && ca.IsCA && now.Before(ca.NotAfter) {
			m.cas = append(m.cas, ca)
		}
	}
	if len(m.cas) > 0 {
		own := encodePEM("CERTIFICATE", m.cas[0].Raw)
		if pair, err := tls.X509KeyPair(own, data[caKey]); err == nil {
			m.signer, _ = pair.PrivateKey.(crypto.Signer)
		}
	}
	if pair, err := tls.X509KeyPair(data[certKey], data[privateKey]); err == nil {
		m.cert = pair.Leaf
	}
	return m
}

// next returns what the Secret should hold, and why that is not what it holds; "" if it
// is.
func next(data map[string][]byte, hosts []string, now time.Time) (map[string][]byte, string, error) {
	m := parse(data, now)
	caWhy := m.lacksCA(now)
	out := map[string][]byte{bundleKey: data[bundleKey], caKey: data[caKey], certKey: data[certKey], privateKey: data[privateKey]}
	if caWhy != "" {
		ca, signer, key, err := newCA(now)
		if err != nil {
			return nil, "", err
		}
		m.cas, m.signer = slices.Insert(m.cas, 0, ca), signer
		out[bundleKey], out[caKey] = bundle(m.cas), key
	}
	certWhy := m.lacksCert(hosts, now)
	if certWhy != "" {
		var err error
		if out[certKey], out[privateKey], err = newCert(m.cas[0], m.signer, hosts, now); err != nil {
			return nil, "", err
		}
	}
	if caWhy == "" && certWhy == "" {
		return data, "", nil
	}
	return out, both(caWhy, certWhy), nil
}

// both joins two reasons, of which one may be none.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// lacksCA says why there must be a new CA.
func (m *material) lacksCA(now time.Time) string {
	switch {
	case len(m.cas) == 0:
		return "there is no CA"
	case m.signer == nil:
		return "the CA's key is not there"
	case m.cas[0].NotAfter.Sub(now) < caSpare:
		return "the CA ends " + m.cas[0].NotAfter.Format(time.DateOnly)
	}
	return ""
}

// lacksCert says why there must be a new certificate.
func (m *material) lacksCert(hosts []string, now time.Time) string {
	c := m.cert
	switch {
	case c == nil:
		return "there is no certificate"
	case now.After(c.NotAfter):
		return "the certificate has ended"
	case !slices.ContainsFunc(m.cas, func(ca *x509.Certificate) bool { return c.CheckSignatureFrom(ca) == nil }):
		return "the certificate is of another CA"
	}
	for _, host := range hosts {
		if c.VerifyHostname(host) != nil {
			return "the certificate is not for " + host
		}
	}
	ofNewest := c.CheckSignatureFrom(m.cas[0]) == nil
	announced := m.cas[0].NotBefore.Add(skew + announcement)
	switch {
	case !ofNewest && now.Before(announced):
		return "" // the old one does until the new CA is believed everywhere
	case !ofNewest:
		return "there is a newer CA"
	case c.NotAfter.Sub(now) < certSpare:
		return "the certificate ends " + c.NotAfter.Format(time.DateOnly)
	}
	return ""
}

func newCA(now time.Time) (ca *x509.Certificate, signer crypto.Signer, key []byte, err error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "scriptorium webhook CA " + now.UTC().Format(time.DateOnly)},
		NotBefore: now.Add(-skew), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	private, key, err := newKey()
	if err != nil {
		return nil, nil, nil, err
	}
	der, err := sign(template, template, private.Public(), private)
	if err != nil {
		return nil, nil, nil, err
	}
	ca, err = x509.ParseCertificate(der)
	return ca, private, key, err
}

func newCert(ca *x509.Certificate, signer crypto.Signer, hosts []string, now time.Time) (cert, key []byte, err error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "scriptorium webhook"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(certLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	private, key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := sign(template, ca, private.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	return encodePEM("CERTIFICATE", der), key, nil
}

func sign(template, parent *x509.Certificate, public any, signer crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return private, encodePEM("PRIVATE KEY", der), nil
}

func bundle(cas []*x509.Certificate) []byte {
	var buf bytes.Buffer
	for _, ca := range cas {
		buf.Write(encodePEM("CERTIFICATE", ca.Raw))
	}
	return buf.Bytes()
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
