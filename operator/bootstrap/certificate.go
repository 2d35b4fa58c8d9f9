package bootstrap

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// skew is by how much a clock may be slow and still take what was just made.
	skew = time.Hour
)

// leaf says what a certificate is for.
type leaf struct {
	commonName string
	dns        []string // names of a server
	usages     []x509.ExtKeyUsage
}

// client is the certificate of one who connects.
func client(commonName string) leaf {
	return leaf{commonName: commonName, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// server is the certificate of a Service.
func server(service, namespace, suffix string) leaf {
	in := service + "." + namespace
	names := []string{service, in, in + ".svc", in + ".svc." + suffix, "*." + in + ".svc", "*." + in + ".svc." + suffix, "localhost"}
	return leaf{commonName: service, dns: names, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

// loopback is where `kubectl port-forward` ends, and where a probe inside a pod begins.
func loopback() []net.IP { return []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback} }

// authority is a CA with its key.
type authority struct {
	secret string // that it is in
	pair   tls.Certificate
	pem    []byte // its certificate
}

func newAuthority(commonName string, now time.Time) (cert, key []byte, err error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName},
		NotBefore: now.Add(-skew), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return sign(template, nil)
}

func parseAuthority(secret string, cert, key []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if !pair.Leaf.IsCA {
		return nil, fmt.Errorf("its certificate, of %s, is not that of a CA", pair.Leaf.Subject)
	}
	return &authority{secret: secret, pair: pair, pem: cert}, nil
}

// ends is the end of what the CA signs at that time.
func (a *authority) ends(now time.Time) time.Time {
	end := now.Add(leafLife)
	if a.pair.Leaf.NotAfter.Before(end) {
		return a.pair.Leaf.NotAfter
	}
	return end
}

// issue makes a certificate and its key.
func (a *authority) issue(l leaf, now time.Time) (cert, key []byte, err error) {
	if !now.Before(a.pair.Leaf.NotAfter) {
		return nil, nil, fmt.Errorf("the CA in %s ended at %s: %s", a.secret, a.pair.Leaf.NotAfter.Format(time.RFC3339), replaceCA)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: l.commonName},
		NotBefore: now.Add(-skew), NotAfter: a.ends(now),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: l.usages, DNSNames: l.dns,
		BasicConstraintsValid: true,
	}
	if len(l.dns) > 0 {
		template.IPAddresses = loopback()
	}
	return sign(template, a)
}

// replaceCA is what to do about a CA that ends.
const replaceCA = "delete that Secret, scriptorium-trust and those of the certificates, run this again, and restart registries, agents, the operator, NATS and etcd; agents serve meanwhile"

// vouches reports whether the CA has signed the certificate.
func (a *authority) vouches(cert *x509.Certificate) error {
	return cert.CheckSignatureFrom(a.pair.Leaf)
}

// sign makes a key and a certificate of the template, which the CA signs, or itself.
func sign(template *x509.Certificate, ca *authority) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	parent, signer := template, any(private)
	if ca != nil {
		parent, signer = ca.pair.Leaf, ca.pair.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &private.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

// nearEnd reports whether less than a third of the certificate's life is left.
func nearEnd(cert *x509.Certificate, now time.Time) bool {
	return cert.NotAfter.Sub(now)*3 < cert.NotAfter.Sub(cert.NotBefore)
}

// lacking returns a name that the certificate is not for, or "".
func (l leaf) lacking(cert *x509.Certificate) string {
	for _, name := range l.dns {
		if !slices.Contains(cert.DNSNames, name) {
			return name
		}
	}
	return ""
}
