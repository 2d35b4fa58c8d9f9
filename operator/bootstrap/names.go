package bootstrap

// The Secrets. The comment of the package says what is in each, and who mounts it.
const (
	Signing      = "scriptorium-signing"
	Trust        = "scriptorium-trust"
	Access       = "scriptorium-access"
	RegistryTLS  = "scriptorium-registry-tls"
	RegistryEtcd = "scriptorium-registry-etcd"
	RegistryNATS = "scriptorium-registry-nats"
	OperatorTLS  = "scriptorium-operator-tls"
	AgentTLS     = "scriptorium-agent-tls"
	AgentNATS    = "scriptorium-agent-nats"
	NATSTLS      = "scriptorium-nats-tls"
	NATSUsers    = "scriptorium-nats-users"
	EtcdTLS      = "scriptorium-etcd-tls"
	AdminTLS     = "scriptorium-admin-tls"
	CA           = "scriptorium-ca"
	EtcdCA       = "scriptorium-etcd-ca"
)

// Their keys.
const (
	signingKey   = "signing.key"
	trustedKeys  = "trusted.pem"
	policyKey    = "policy.yaml"
	passwordKey  = "password"
	registryUser = "REGISTRY_PASSWORD"
	agentUser    = "AGENT_PASSWORD"
	certKey      = "tls.crt"
	keyKey       = "tls.key"
	caKey        = "ca.crt"
)

// Labels of what this package has made. What lacks the second is somebody else's.
const (
	partOfLabel, partOf       = "app.kubernetes.io/part-of", "scriptorium"
	managedByLabel, managedBy = "app.kubernetes.io/managed-by", "scriptorium-bootstrap"
)

// policy is the access policy that a fleet begins with: certificates that this package
// makes, and nobody else.
const policy = `# Grants: docs/security.md, "The access policy". Registries read this again
# within seconds of a change.
subjects:
  # The operator publishes what LuaScripts say, and sets what ScriptTenants say.
  - name: operator
    certificates: [{commonName: operator}]
    grants: [{roles: [admin], tenants: ["*"]}]
  # Agents follow.
  - name: agents
    certificates: [{commonName: agent}]
    grants: [{roles: [read], tenants: ["*"]}]
  # People, with the certificate in the Secret scriptorium-admin-tls.
  - name: admin
    certificates: [{commonName: admin}]
    grants: [{roles: [admin], tenants: ["*"]}]
`
