package embed

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/internal/node"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of an Agent. StateDir, Registry and TrustedKeys are required. Each field is the flag of agentd
// whose name its JSON has, and errors name it so.
type Config struct {
	// Name of the agent, unique in its fleet; the host's and the program's by default: "node-1.caddy".
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// StateDir is the folder that scripts are kept in. No other agent may use it.
	StateDir string `json:"state_dir"`
	// Tenants whose scripts the agent holds, as names or globs; all when empty.
	Tenants []string `json:"tenants,omitempty"`

	// Registry is its address: "host:port", "dns:///host:port" or "unix:PATH".
	Registry string `json:"registry"`
	// Files of the registry's CA, of the client's certificate and key, and of a bearer token.
	RegistryCA        string `json:"registry_ca,omitempty"`
	RegistryCert      string `json:"registry_cert,omitempty"`
	RegistryKey       string `json:"registry_key,omitempty"`
	RegistryTokenFile string `json:"registry_token_file,omitempty"`
	// TrustedKeys are files with the public keys of registries that the agent trusts.
	TrustedKeys []string `json:"trusted_key,omitempty"`
	// TenantKeys is a file with the public keys of publishers, by tenant.
	TenantKeys string `json:"tenant_keys,omitempty"`

	// NATS are servers of one cluster; nats://127.0.0.1:4222 by default.
	NATS          []string `json:"nats_url,omitempty"`
	SubjectPrefix string   `json:"subject_prefix,omitempty"`
	// Files of the CA of NATS, of the client's certificate and key, and of its credentials.
	NATSCA           string `json:"nats_ca,omitempty"`
	NATSCert         string `json:"nats_cert,omitempty"`
	NATSKey          string `json:"nats_key,omitempty"`
	NATSCreds        string `json:"nats_creds,omitempty"`
	NATSUser         string `json:"nats_user,omitempty"`
	NATSPasswordFile string `json:"nats_password_file,omitempty"`

	// AdoptFleet is the id of the fleet to change to, when the registry serves it.
	AdoptFleet string `json:"adopt_fleet,omitempty"`
	// RemovalShare is how many percent of the live scripts the registry may remove at once without a
	// record of each removal; 0 means 20.
	RemovalShare int `json:"removal_share,omitempty"`

	// CacheBytes that compiled programs may hold; 0 means 256 MiB. ValueCacheBytes of the contents of
	// values are kept in memory; 0 means 64 MiB.
	CacheBytes      int64 `json:"cache_bytes,omitempty"`
	ValueCacheBytes int64 `json:"value_cache_bytes,omitempty"`
	// MaxRunning calls run at once; 0 means GOMAXPROCS-1, at least 1. MaxWaiting calls wait for their
	// turn, and more are answered OVERLOADED; 0 means 1024.
	MaxRunning int `json:"max_running,omitempty"`
	MaxWaiting int `json:"max_waiting,omitempty"`

	// DecisionLog is where records of calls go: "file:PATH?max-size=100MiB&keep=5" or "stdout".
	DecisionLog []string `json:"decision_log,omitempty"`
	// DecisionLogBuffer bytes of records wait for each of them; 0 means 16 MiB. DecisionSpoolBytes of
	// records of tenants with a strict audit are kept on disk; 0 means 256 MiB.
	DecisionLogBuffer  int64 `json:"decision_log_buffer,omitempty"`
	DecisionSpoolBytes int64 `json:"decision_spool_bytes,omitempty"`

	// The Insecure fields accept unsigned messages, connections without TLS, and secrets in files that
	// other users can read.
	InsecureUnsigned  bool `json:"insecure_unsigned,omitempty"`
	InsecurePlaintext bool `json:"insecure_plaintext,omitempty"`
	InsecureFileModes bool `json:"insecure_file_modes,omitempty"`

	// Logger gets what an operator should know; nil means slog.Default().
	Logger *slog.Logger `json:"-"`
}

const defaultNATS = "nats://127.0.0.1:4222"

// withDefaults returns the configuration of a node, whose metrics go to reg.
func (c *Config) node(reg *prometheus.Registry) (node.Config, error) {
	if c.StateDir == "" {
		return node.Config{}, script.Errorf(script.Invalid, "state_dir", "is required: a folder for this agent alone")
	}
	log := cmp.Or(c.Logger, slog.Default())
	nats := c.NATS
	if len(nats) == 0 {
		nats = []string{defaultNATS}
	}
	return node.Config{
		Config: agent.Config{
			Name: cmp.Or(c.Name, defaultName()), Labels: c.Labels, Dir: c.StateDir,
			Registry: c.Registry, NATS: nats, Prefix: c.SubjectPrefix, AdoptFleet: c.AdoptFleet, RemovalShare: c.RemovalShare,
			CacheBytes: c.CacheBytes, ValueCacheBytes: c.ValueCacheBytes, MaxRunning: c.MaxRunning, MaxWaiting: c.MaxWaiting,
			Log: log, Metrics: reg,
		},
		Tenants:   c.Tenants,
		Decisions: node.Decisions{Log: c.DecisionLog, Buffer: c.DecisionLogBuffer, Spool: cmp.Or(c.DecisionSpoolBytes, decisionlog.DefaultSpoolBytes)},
		Security: node.Security{
			TrustedKeys: c.TrustedKeys, TenantKeys: c.TenantKeys,
			InsecureUnsigned: c.InsecureUnsigned, InsecurePlaintext: c.InsecurePlaintext, InsecureFileModes: c.InsecureFileModes,
			Registry: security.Caller{CA: c.RegistryCA, Cert: c.RegistryCert, Key: c.RegistryKey, TokenFile: c.RegistryTokenFile},
			NATS: security.NATS{
				CA: c.NATSCA, Cert: c.NATSCert, Key: c.NATSKey, Creds: c.NATSCreds, User: c.NATSUser, PasswordFile: c.NATSPasswordFile,
			},
		},
	}, nil
}

// notInNames is what an agent's name has not.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// defaultName differs from that of an agentd on the same node.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host + "." + notInNames.ReplaceAllString(filepath.Base(os.Args[0]), "-")
}

var flags = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)

// asFields has an error name fields of Config in JSON where it names flags of agentd.
func asFields(err error) error {
	if err == nil {
		return nil
	}
	e := *script.AsError(err)
	name := func(flag string) string { return strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", "_") }
	e.Field, e.Message = flags.ReplaceAllStringFunc(e.Field, name), flags.ReplaceAllStringFunc(e.Message, name)
	return &e
}
