package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/natsconn"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Security says whom the agent believes, and what it shows others. The zero value
// makes no choice; Open then says which one it wants. docs/security.md describes all
// of it.
type Security struct {
	// TrustedKeys are files of public keys: what one of them has signed is believed.
	// InsecureUnsigned believes everything.
	TrustedKeys      []string
	InsecureUnsigned bool
	// TenantKeys is the file of the keys of tenants' publishers; "" asks for no signatures of
	// theirs.
	TenantKeys string
	// InsecurePlaintext allows connections that are not encrypted.
	InsecurePlaintext bool
	// InsecureFileModes accepts secrets in files that other users can read or change.
	InsecureFileModes bool

	Registry security.Caller
	NATS     security.NATS
}

const registryPrefix = "registry-"

// AddFlags defines the flags of agentd.
func (s *Security) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.TrustedKeys, "trusted-key", nil, "file with public keys of registries that the agent trusts; for several files, use commas or repeat the flag")
	flags.StringVar(&s.TenantKeys, "tenant-keys", "", "file with public keys of publishers, by tenant. The agent runs only signed versions of these tenants' scripts")
	flags.BoolVar(&s.InsecureUnsigned, "insecure-unsigned", false, "accept unsigned messages: anyone who reaches NATS can then run code here")
	flags.BoolVar(&s.InsecurePlaintext, security.PlaintextFlag, false, "allow connections to the registry and NATS without TLS")
	security.AddFileModes(flags, &s.InsecureFileModes)
	s.Registry.AddFlags(flags, registryPrefix)
	s.NATS.AddFlags(flags)
}

// secured is what comes of a Security: what the agent needs of it.
type secured struct {
	keyring    *seal.Keyring
	publishers *publisher.Roots
	dial       []grpc.DialOption
	nats       natsconn.Security

	log        *slog.Logger
	files      []string
	watch      *tlsfiles.Watch
	tenantKeys *security.TenantKeys
}

// open reads all files, and refuses what nobody has chosen.
func (s Security) open(cfg *Config) (*secured, error) {
	out := &secured{log: cfg.Log, files: s.TrustedKeys}
	if err := s.trust(out); err != nil {
		return nil, err
	}
	var err error
	if out.tenantKeys, err = security.OpenTenantKeys(s.TenantKeys, cfg.Log); err != nil {
		return nil, err
	}
	out.publishers = out.tenantKeys.Roots
	modes := tlsfiles.ModesFor(s.InsecureFileModes)
	s.Registry.Expiries, s.NATS.Expiries = cfg.Expiries, cfg.Expiries
	conn, err := s.Registry.Open(cfg.Registry, registryPrefix, s.InsecurePlaintext, modes, cfg.Log)
	if err != nil {
		return nil, err
	}
	out.dial = conn.DialOptions()
	out.nats, err = s.NATS.Open(cfg.NATS, s.InsecurePlaintext, modes, cfg.Log)
	return out, err
}

func (s Security) trust(out *secured) error {
	switch {
	case len(s.TrustedKeys) > 0 && s.InsecureUnsigned:
		return script.Errorf(script.Invalid, "--insecure-unsigned", "contradicts --trusted-key: leave one out")
	case s.InsecureUnsigned:
		out.log.Warn("what nobody has signed is believed: whoever reaches NATS can run code here")
		out.keyring = seal.TrustEverything()
		return nil
	case len(s.TrustedKeys) == 0:
		return script.Errorf(script.Invalid, "--trusted-key", "is required: name the file of the registry's public key, as `scriptctl keys public` prints it; --insecure-unsigned believes everybody")
	}
	out.watch = tlsfiles.NewWatch(s.TrustedKeys...)
	keys, err := seal.ReadPublicKeys(s.TrustedKeys...)
	if err != nil {
		return script.Errorf(script.Invalid, "--trusted-key", "%w", err)
	}
	out.keyring = seal.NewKeyring(keys...)
	out.log.Info("what these keys have signed is believed", "keys", out.keyring.KeyIDs())
	return nil
}

// keysInterval is how often the files of trusted keys are looked at.
const keysInterval = 2 * time.Second

// run keeps the trusted keys as their files say, until ctx is done. It says when those of
// publishers have changed.
func (s *secured) run(ctx context.Context, publishersChanged func()) {
	var tenantKeys sync.WaitGroup
	defer tenantKeys.Wait()
	tenantKeys.Go(func() { s.tenantKeys.Run(ctx, publishersChanged) })
	if s.watch == nil {
		return
	}
	s.watch.Run(ctx, keysInterval, func() {
		keys, err := seal.ReadPublicKeys(s.files...)
		if err != nil {
			s.log.Error("the trusted keys were replaced by what cannot be used; the old ones stay trusted", "error", err)
			return
		}
		s.keyring.Replace(keys...)
		s.log.Info("the trusted keys were read again", "keys", s.keyring.KeyIDs())
	})
}
