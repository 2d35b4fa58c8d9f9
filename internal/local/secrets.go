package local

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/scriptorium-dev/scriptorium/internal/node"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// secrets are what the parts of a stack know each other by: what the registry says
// is signed, as anywhere else. They are files in the stack's folder.
type secrets struct {
	dir      string
	password string // of NATS
}

const natsUser = "scriptorium"

func (s *secrets) signingKey() string   { return filepath.Join(s.dir, "signing.key") }
func (s *secrets) trustedKey() string   { return filepath.Join(s.dir, "trusted.pem") }
func (s *secrets) passwordFile() string { return filepath.Join(s.dir, "nats.password") }

// prepare makes those that are not there yet.
func (s *secrets) prepare() error {
	s.password = rand.Text()
	if err := os.WriteFile(s.passwordFile(), []byte(s.password+"\n"), 0o600); err != nil {
		return err
	}
	key, err := seal.ReadPrivateKey(s.signingKey())
	if errors.Is(err, fs.ErrNotExist) {
		key, err = s.newKey()
	}
	if err != nil {
		return err
	}
	public, err := seal.EncodePublicKeys(key.Public().(ed25519.PublicKey))
	if err != nil {
		return err
	}
	return os.WriteFile(s.trustedKey(), public, 0o600)
}

func (s *secrets) newKey() (ed25519.PrivateKey, error) {
	key, err := seal.GenerateKey()
	if err != nil {
		return nil, err
	}
	text, err := seal.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(s.signingKey(), text, 0o600)
}

func (s *secrets) nats() security.NATS {
	return security.NATS{User: natsUser, PasswordFile: s.passwordFile()}
}

// registry and agent accept that etcd and NATS are not encrypted: they are in the
// same process.
func (s *secrets) registry() registryd.Security {
	return registryd.Security{SigningKey: s.signingKey(), InsecurePlaintext: true, NATS: s.nats()}
}

func (s *secrets) agent() node.Security {
	return node.Security{TrustedKeys: []string{s.trustedKey()}, InsecurePlaintext: true, NATS: s.nats()}
}

// AgentFlags are the flags with which agentd trusts this stack, and logs in to its NATS.
func (s *Stack) AgentFlags() []string {
	return []string{
		"--trusted-key", s.secret.trustedKey(), "--insecure-plaintext",
		"--nats-user", natsUser, "--nats-password-file", s.secret.passwordFile(),
	}
}

// AgentSecurity is the same for programs that put an agent together.
func (s *Stack) AgentSecurity() node.Security { return s.secret.agent() }
