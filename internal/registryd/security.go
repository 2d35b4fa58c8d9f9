package registryd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/natsconn"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/issuer"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Security says whom the registry believes, and by what it is believed. The zero
// value makes no choice; Start then says which one it wants. docs/security.md
// describes all of it.
type Security struct {
	// SigningKey is the file of the private key that everything agents believe is
	// signed with; InsecureUnsigned does without.
	SigningKey       string
	InsecureUnsigned bool

	// TLSCert and TLSKey are the files of what is shown over TCP, TLSClientCA of those
	// who vouch for clients.
	TLSCert, TLSKey, TLSClientCA string

	// AccessPolicy is the file that grants roles to callers; InsecureAnonymous lets
	// everybody do everything.
	AccessPolicy      string
	InsecureAnonymous bool

	// TenantKeys is the file of the keys of tenants' publishers; "" asks for no signatures of
	// theirs.
	TenantKeys string

	// InsecurePlaintext allows connections that are not encrypted: with clients, etcd
	// and NATS.
	InsecurePlaintext bool

	// InsecureFileModes accepts secrets in files that other users can read or change.
	InsecureFileModes bool

	// Of etcd.
	EtcdCA, EtcdCert, EtcdKey  string
	EtcdUser, EtcdPasswordFile string

	NATS security.NATS
}

func (s *Security) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.SigningKey, "signing-key", "", "`file` of the private key that events and snapshots are signed with; scriptctl keys generate makes one. While a key is replaced, the former one comes after it")
	flags.BoolVar(&s.InsecureUnsigned, "insecure-unsigned", false, "sign nothing: anyone who reaches NATS can then run code on agents that accept this")
	flags.StringVar(&s.TLSCert, "tls-cert", "", "file of the certificate, with its chain, for host:port listeners")
	flags.StringVar(&s.TLSKey, "tls-key", "", "file of that certificate's private key")
	flags.StringVar(&s.TLSClientCA, "tls-client-ca", "", "file of the CA certificates that sign client certificates. When empty, registryd does not request client certificates")
	flags.StringVar(&s.AccessPolicy, "access-policy", "", "file of the access policy, which grants roles to callers")
	flags.StringVar(&s.TenantKeys, "tenant-keys", "", "file with public keys of publishers, by tenant; the same as the agents'. The registry then refuses unsigned versions of these tenants' scripts")
	flags.BoolVar(&s.InsecureAnonymous, "insecure-anonymous", false, "grant everything to every caller that reaches a listener")
	s.NATS.AddFlags(flags)
}

// addEtcdFlags adds the flags that the connection to etcd needs.
func (s *Security) addEtcdFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.InsecurePlaintext, security.PlaintextFlag, false, "allow host:port listeners, etcd and NATS without TLS")
	security.AddFileModes(flags, &s.InsecureFileModes)
	flags.StringVar(&s.EtcdCA, "etcd-ca", "", "file of the CA certificates that vouch for etcd; with https:// and without it, the system's")
	flags.StringVar(&s.EtcdCert, "etcd-cert", "", "file of the client certificate for etcd")
	flags.StringVar(&s.EtcdKey, "etcd-key", "", "file of that certificate's private key")
	flags.StringVar(&s.EtcdUser, "etcd-user", "", "user of etcd, if the client certificate does not name one")
	flags.StringVar(&s.EtcdPasswordFile, "etcd-password-file", "", "file of that user's password")
}

// secured is what comes of a Security: what the parts of the registry need of it.
type secured struct {
	sealer         *seal.Sealer
	authentication rpc.Authentication
	etcd           etcdstore.Security
	nats           natsconn.Security
	tenantKeys     *security.TenantKeys

	log     *slog.Logger
	issuers *issuer.Keys
	policy  atomic.Pointer[access.Policy] // of the file, as it was when it was good last
	file    string
	watch   *tlsfiles.Watch
	current atomic.Bool // the policy is the file's

	refused  *prometheus.CounterVec
	stale    prometheus.GaugeFunc
	expiry   prometheus.GaugeFunc
	expiries *tlsfiles.Expiries // of certificates
}

// open reads all files, and refuses what nobody has chosen.
func (s Security) open(cfg Config) (*secured, error) {
	out := &secured{log: cfg.Log, issuers: issuer.New(cfg.Log), file: s.AccessPolicy, expiries: tlsfiles.NewExpiries(subsystem)}
	s.NATS.Expiries = out.expiries
	var err error
	if out.sealer, err = s.sealer(cfg.Log); err != nil {
		return nil, err
	}
	if out.tenantKeys, err = security.OpenTenantKeys(s.TenantKeys, cfg.Log); err != nil {
		return nil, err
	}
	out.metrics()
	if err := s.access(out, overTCP(cfg.Listen), len(cfg.Listen)); err != nil {
		return nil, err
	}
	if out.etcd, err = s.etcd(cfg.EtcdEndpoints, out.expiries, cfg.Log); err != nil {
		return nil, err
	}
	if out.nats, err = s.NATS.Open(cfg.NATS, s.InsecurePlaintext, s.modes(), cfg.Log); err != nil {
		return nil, err
	}
	return out, nil
}

// modes returns what happens to secrets in files that other users can read or change.
func (s Security) modes() tlsfiles.Modes { return tlsfiles.ModesFor(s.InsecureFileModes) }

// overTCP returns those of the addresses that others can reach.
func overTCP(listen []string) (tcp []string) {
	for _, address := range listen {
		if !strings.HasPrefix(address, "unix:") {
			tcp = append(tcp, address)
		}
	}
	return tcp
}

func (s Security) sealer(log *slog.Logger) (*seal.Sealer, error) {
	switch {
	case s.SigningKey != "" && s.InsecureUnsigned:
		return nil, script.Errorf(script.Invalid, "--insecure-unsigned", "contradicts --signing-key: leave one out")
	case s.InsecureUnsigned:
		log.Warn("nothing is signed: agents that accept that run whatever anybody puts on NATS")
		return seal.Unsigned(), nil
	case s.SigningKey == "":
		return nil, script.Errorf(script.Invalid, "--signing-key", "is required: make a key with `scriptctl keys generate`, and give agents its public part as --trusted-key; --insecure-unsigned does without")
	}
	keys, err := seal.ReadPrivateKeys(s.SigningKey)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--signing-key", "%w", err)
	}
	if err := s.modes().Check(s.SigningKey, log); err != nil {
		return nil, script.Errorf(script.Invalid, "--signing-key", "%w", err)
	}
	sealer := seal.NewSealer(keys[0], keys[1:]...)
	log.Info("everything agents believe is signed", "key", sealer.KeyID(), "former_keys", sealer.KeyIDs()[1:])
	return sealer, nil
}

// access makes out.authentication, for that many listeners, of which tcp are those
// that others can reach.
func (s Security) access(out *secured, tcp []string, listeners int) error {
	a := rpc.Authentication{InsecureTokens: s.InsecurePlaintext, InsecureAnonymous: s.InsecureAnonymous, Refused: out.countRefused}
	switch {
	case s.AccessPolicy != "" && s.InsecureAnonymous:
		return script.Errorf(script.Invalid, "--insecure-anonymous", "contradicts --access-policy: leave one out")
	case s.AccessPolicy != "":
		out.watch = tlsfiles.NewWatch(s.AccessPolicy)
		policy, err := access.Load(s.AccessPolicy, out.issuers)
		if err != nil {
			return script.Errorf(script.Invalid, "--access-policy", "%w", err)
		}
		out.policy.Store(policy)
		out.current.Store(true)
		a.Policy = out.policy.Load
		if policy.HasCertificates() && s.TLSClientCA == "" && len(tcp) > 0 {
			out.log.Warn("the access policy names client certificates, but without --tls-client-ca nobody is asked for one")
		}
	case s.InsecureAnonymous:
		out.log.Warn("everybody who reaches a listener may do everything: publish, delete, export", "listen", tcp)
	case len(tcp) > 0:
		return script.Errorf(script.Invalid, "--access-policy", "is required to listen on %s: name the file that gives roles to callers; --insecure-anonymous lets everybody do everything", strings.Join(tcp, ", "))
	}
	if s.AccessPolicy == "" && len(tcp) < listeners {
		out.log.Info("there is no access policy: whoever may open a Unix socket of the registry may do everything")
	}
	out.authentication = a
	if len(tcp) == 0 {
		return nil
	}
	if s.TLSCert == "" && s.TLSKey == "" {
		if s.TLSClientCA != "" {
			return script.Errorf(script.Invalid, "--tls-client-ca", "needs --tls-cert and --tls-key")
		}
		for _, address := range tcp {
			if err := security.Plaintext(s.InsecurePlaintext, "--listen", "the registry's listener", "give --tls-cert and --tls-key", address, out.log); err != nil {
				return err
			}
		}
		return nil
	}
	m, err := tlsfiles.Load(tlsfiles.Files{CA: s.TLSClientCA, Cert: s.TLSCert, Key: s.TLSKey, Modes: s.modes(), Expiries: out.expiries, Connection: "listen"}, out.log)
	if err != nil {
		return script.Errorf(script.Invalid, "--tls-cert, --tls-key, --tls-client-ca", "%w", err)
	}
	out.authentication.TLS = m.Credentials()
	return nil
}

func (s Security) etcd(endpoints []string, expiries *tlsfiles.Expiries, log *slog.Logger) (sec etcdstore.Security, err error) {
	if (s.EtcdUser == "") != (s.EtcdPasswordFile == "") {
		return sec, script.Errorf(script.Invalid, "--etcd-user", "and --etcd-password-file go together")
	}
	if s.EtcdUser != "" {
		sec.User = s.EtcdUser
		if sec.Password, err = tlsfiles.Secret(s.EtcdPasswordFile, s.modes(), log); err != nil {
			return sec, script.Errorf(script.Invalid, "--etcd-password-file", "%w", err)
		}
	}
	encrypted := 0
	for _, endpoint := range endpoints {
		if strings.HasPrefix(endpoint, "https://") || strings.HasPrefix(endpoint, "unixs://") {
			encrypted++
		}
	}
	files := tlsfiles.Files{CA: s.EtcdCA, Cert: s.EtcdCert, Key: s.EtcdKey}
	switch {
	case encrypted == 0 && files != tlsfiles.Files{}:
		return sec, script.Errorf(script.Invalid, "--etcd-endpoints", "%s are not encrypted, so --etcd-ca, --etcd-cert and --etcd-key have no use: write https://", strings.Join(endpoints, ", "))
	case encrypted == 0:
		return sec, security.Plaintext(s.InsecurePlaintext, "--etcd-endpoints", "etcd", "write https://", strings.Join(endpoints, ","), log)
	case encrypted < len(endpoints):
		return sec, script.Errorf(script.Invalid, "--etcd-endpoints", "are partly https:// and partly not: %s", strings.Join(endpoints, ", "))
	}
	files.Modes, files.Expiries, files.Connection = s.modes(), expiries, "etcd"
	m, err := tlsfiles.Load(files, log)
	if err != nil {
		return sec, script.Errorf(script.Invalid, "--etcd-ca, --etcd-cert, --etcd-key", "%w", err)
	}
	sec.Credentials = m.Credentials()
	return sec, nil
}

// policyInterval is how often the file of the access policy is looked at.
const policyInterval = 2 * time.Second

// run keeps the access policy and the publishers' keys as their files say, until ctx is done.
func (s *secured) run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { s.tenantKeys.Run(ctx, func() {}) })
	if s.watch == nil {
		return
	}
	others.Go(func() { s.issuers.Run(ctx, func() []access.Issuer { return s.policy.Load().Issuers() }) })
	others.Go(func() { s.warnOfExpiry(ctx) })
	s.watch.Run(ctx, policyInterval, func() {
		policy, err := access.Load(s.file, s.issuers)
		s.current.Store(err == nil)
		if err != nil {
			s.log.Error("the access policy was replaced by one that cannot be used; the old one stays in force", "error", oneLine(err))
			return
		}
		s.policy.Store(policy)
		s.log.Info("the access policy was read again", "file", s.file)
	})
}

const (
	expiryInterval = time.Hour
	// expiresSoon is how long before the end of a token the log warns of it.
	expiresSoon = 7 * 24 * time.Hour
)

// warnOfExpiry logs which bearer tokens expire soon, until ctx is done.
func (s *secured) warnOfExpiry(ctx context.Context) {
	again := time.NewTicker(expiryInterval)
	defer again.Stop()
	for {
		now := time.Now()
		for _, e := range s.policy.Load().Expiries() {
			if left := e.Expires.Sub(now); left > 0 && left < expiresSoon {
				s.log.Warn("a bearer token expires soon: add another to the access policy, and give it to its callers", "subject", e.Subject, "expires", e.Expires)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// nextExpiry returns when the next bearer token expires; 0 if none does.
func (s *secured) nextExpiry() float64 {
	policy := s.policy.Load()
	if policy == nil {
		return 0
	}
	now := time.Now()
	for _, e := range policy.Expiries() {
		if e.Expires.After(now) {
			return float64(e.Expires.Unix())
		}
	}
	return 0
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (s *secured) metrics() {
	s.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "callers_refused_total",
		Help: "Requests and connections of callers that are not known, by the reason.",
	}, []string{"reason"})
	for _, reason := range access.Reasons() {
		s.refused.WithLabelValues(string(reason))
	}
	s.stale = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "access_policy_current",
		Help: "1 while the access policy in force is what its file says; 0 if the file cannot be used, or there is none.",
	}, func() float64 { return flag(s.current.Load()) })
	s.expiry = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "access_token_expiry_timestamp_seconds",
		Help: "When the next bearer token of the access policy expires; 0 if none does.",
	}, s.nextExpiry)
}

func (s *secured) countRefused(reason access.Reason) { s.refused.WithLabelValues(string(reason)).Inc() }

func (s *secured) register(r prometheus.Registerer) error {
	return errors.Join(r.Register(s.refused), r.Register(s.stale), r.Register(s.expiry), r.Register(s.expiries))
}
