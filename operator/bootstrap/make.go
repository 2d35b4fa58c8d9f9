package bootstrap

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// authority returns the CA in the Secret, or nil if there is an error.
func (r *run) authority(name, commonName string) *authority {
	var ca *authority
	found := r.ensure(name, secret{
		kind: corev1.SecretTypeTLS,
		make: func() (data, error) {
			cert, key, err := newAuthority(commonName, r.opts.Now())
			return data{certKey: cert, keyKey: key}, err
		},
		detail: func(data) string { return until(r.opts.Now().Add(caLife)) },
		check: func(s *corev1.Secret) error {
			_, err := parseAuthority(name, s.Data[certKey], s.Data[keyKey])
			return err
		},
	})
	if found != nil {
		ca, _ = parseAuthority(name, found[certKey], found[keyKey]) // was parsed before
	}
	return ca
}

func until(t time.Time) string { return "until " + t.UTC().Format(time.DateOnly) }

// certificate makes or renews a certificate of the CA.
func (r *run) certificate(name string, ca *authority, l leaf) {
	r.ensure(name, secret{
		kind: corev1.SecretTypeTLS,
		make: func() (data, error) {
			cert, key, err := ca.issue(l, r.opts.Now())
			return data{certKey: cert, keyKey: key, caKey: ca.pem}, err
		},
		detail: func(data) string { return "for " + l.commonName + ", " + until(ca.ends(r.opts.Now())) },
		check: func(s *corev1.Secret) error {
			if _, err := tls.X509KeyPair(s.Data[certKey], s.Data[keyKey]); err != nil {
				return err
			}
			return has(caKey)(s)
		},
		renew: func(s *corev1.Secret) (data, string, error) { return r.renew(s, ca, l) },
	})
}

func (r *run) renew(s *corev1.Secret, ca *authority, l leaf) (data, string, error) {
	pair, err := tls.X509KeyPair(s.Data[certKey], s.Data[keyKey])
	if err != nil {
		return nil, "", err
	}
	if err := ca.vouches(pair.Leaf); err != nil {
		return nil, "", fmt.Errorf("the CA in %s did not sign this certificate, so those who believe the one do not believe the other: delete all Secrets of certificates that it did not sign, and run this again (%w)", ca.secret, err)
	}
	now, old := r.opts.Now(), pair.Leaf.NotAfter
	var why string
	switch lacking := l.lacking(pair.Leaf); {
	case lacking != "":
		why = "it was not for " + lacking
	case !nearEnd(pair.Leaf, now):
		return nil, until(old), nil
	case !ca.ends(now).After(old):
		return nil, "", fmt.Errorf("cannot be renewed, because the CA in %s ends at %s: %s", ca.secret, old.Format(time.RFC3339), replaceCA)
	default:
		why = "it ended at " + old.UTC().Format(time.DateOnly)
	}
	cert, key, err := ca.issue(l, now)
	return data{certKey: cert, keyKey: key}, why + "; now " + until(ca.ends(now)), err
}

// signing makes the key that the fleet believes, and what agents know it by.
func (r *run) signing(ca *authority) {
	found := r.ensure(Signing, secret{
		make: func() (data, error) {
			key, err := seal.GenerateKey()
			if err != nil {
				return nil, err
			}
			text, err := seal.EncodePrivateKey(key)
			return data{signingKey: text}, err
		},
		check: func(s *corev1.Secret) error {
			_, err := parseSigningKey(s.Data[signingKey])
			return err
		},
	})
	if found == nil {
		return
	}
	key, err := parseSigningKey(found[signingKey])
	if err != nil {
		r.failed(Signing, err)
		return
	}
	public := key.Public().(ed25519.PublicKey)
	r.ensure(Trust, secret{
		make: func() (data, error) {
			if ca == nil && !r.opts.NoCertificates {
				return nil, fmt.Errorf("needs the CA in %s", CA)
			}
			text, err := seal.EncodePublicKeys(public)
			made := data{trustedKeys: text}
			if ca != nil {
				made[caKey] = ca.pem
			}
			return made, err
		},
		detail: func(data) string { return "key " + seal.KeyID(public) },
		check: func(s *corev1.Secret) error {
			if !holds(s.Data[trustedKeys], public) {
				return fmt.Errorf("%s does not hold the public key of %s (%s), so agents refuse all that registries sign", trustedKeys, Signing, seal.KeyID(public))
			}
			return nil
		},
	})
}

func parseSigningKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key in PEM", signingKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", signingKey, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, want an Ed25519 key", signingKey, parsed)
	}
	return key, nil
}

// holds reports whether the key is among those of the text.
func holds(text []byte, key ed25519.PublicKey) bool {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return false
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return false
		}
		if bytes.Equal(block.Bytes, der) {
			return true
		}
	}
}

// nats makes the passwords of registries and agents, and what the server knows them by.
func (r *run) nats() {
	registry, agent := r.password(RegistryNATS), r.password(AgentNATS)
	if registry == nil || agent == nil {
		return
	}
	r.ensure(NATSUsers, secret{
		make: func() (data, error) {
			// The passwords are random: there is nothing to guess, and so no reason to make
			// each of a thousand agents that come back cost the server a tenth of a second.
			a, err := bcrypt.GenerateFromPassword(registry, bcrypt.MinCost)
			b, err2 := bcrypt.GenerateFromPassword(agent, bcrypt.MinCost)
			return data{registryUser: a, agentUser: b}, errors.Join(err, err2)
		},
		check: func(s *corev1.Secret) error {
			for key, password := range map[string][]byte{registryUser: registry, agentUser: agent} {
				if err := bcrypt.CompareHashAndPassword(s.Data[key], password); err != nil {
					return fmt.Errorf("%s is not the hash of the password in %s or %s, so NATS lets nobody in: %w", key, RegistryNATS, AgentNATS, err)
				}
			}
			return nil
		},
	})
}

func (r *run) password(name string) []byte {
	found := r.ensure(name, secret{
		make:  func() (data, error) { return data{passwordKey: []byte(rand.Text() + rand.Text())}, nil },
		check: has(passwordKey),
	})
	// As those who read the file do.
	return bytes.TrimRight(found[passwordKey], " \t\r\n")
}
