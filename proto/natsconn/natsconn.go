// Package natsconn says how registry and agents show NATS who they are, and know that
// it is NATS. What they then say to each other is not its business.
package natsconn

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/nats-io/nats.go"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Security of connections to NATS. The zero value has none: plain text, unless the
// server demands TLS, and no name.
type Security struct {
	// TLS returns the configuration of the next connection; if it is nil, TLS is only
	// used where the server demands it.
	TLS func() (*tls.Config, error)
	// CredentialsFile is the path of a ".creds" file: a JWT and its seed. It is read at
	// each connection.
	CredentialsFile string
	// User and Password; Password is asked at each connection.
	User     string
	Password func() (string, error)
}

// Options returns the options of a connection that is made so.
func (s Security) Options() ([]nats.Option, error) {
	var options []nats.Option
	if s.TLS != nil {
		first, err := s.TLS()
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(first), s.renewed(first))
	}
	if s.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(s.CredentialsFile))
	}
	if s.User != "" {
		if s.Password == nil {
			return nil, script.Errorf(script.Invalid, "nats", "the user %s has no password", s.User)
		}
		options = append(options, nats.UserInfoHandler(s.userInfo))
	}
	return options, nil
}

// renewed makes each connection use what TLS returns then; first is what it returned
// first.
func (s Security) renewed(first *tls.Config) nats.Option {
	return func(o *nats.Options) error {
		o.RootCAsCB = func() (*x509.CertPool, error) {
			config, err := s.TLS()
			if err != nil {
				return nil, err
			}
			return config.RootCAs, nil
		}
		if len(first.Certificates) == 0 {
			return nil
		}
		o.TLSCertCB = func() (tls.Certificate, error) {
			config, err := s.TLS()
			if err != nil || len(config.Certificates) == 0 {
				return tls.Certificate{}, err
			}
			return config.Certificates[0], nil
		}
		return nil
	}
}

// userInfo returns no password if there is none to be had: NATS then refuses, and the
// connection is tried again.
func (s Security) userInfo() (user, password string) {
	password, err := s.Password()
	if err != nil {
		return s.User, ""
	}
	return s.User, password
}
