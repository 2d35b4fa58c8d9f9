// Package bootstrap makes the Secrets that a fleet on Kubernetes needs before any of
// its pods can start: keys, certificates, passwords and the access policy. It makes
// what is missing and leaves alone what is there, but for certificates of its own
// making that near their end: those it renews. `operator bootstrap` runs it, once at
// the installation as a Job and every month as a CronJob.
//
// # The Secrets
//
// All are in one namespace. A pod mounts only its own: a node may read the whole of
// each Secret that a pod on it mounts, and agents are on every node. Secret
// scriptorium-X is mounted, as a folder and without subPath, at /etc/scriptorium/X.
//
//	Secret                       keys                               mounted by
//	scriptorium-signing          signing.key                        registry
//	scriptorium-trust            trusted.pem ca.crt                 agent
//	scriptorium-access           policy.yaml                        registry
//	scriptorium-registry-tls     tls.crt tls.key ca.crt             registry
//	scriptorium-registry-etcd    tls.crt tls.key ca.crt             registry
//	scriptorium-registry-nats    password                           registry
//	scriptorium-operator-tls     tls.crt tls.key ca.crt             operator
//	scriptorium-agent-tls        tls.crt tls.key ca.crt             agent
//	scriptorium-agent-nats       password                           agent
//	scriptorium-nats-tls         tls.crt tls.key ca.crt             nats
//	scriptorium-nats-users       REGISTRY_PASSWORD AGENT_PASSWORD   nats, as variables (envFrom)
//	scriptorium-etcd-tls         tls.crt tls.key ca.crt             etcd
//	scriptorium-admin-tls        tls.crt tls.key ca.crt             nobody: for people
//	scriptorium-ca               tls.crt tls.key                    nobody: signs certificates
//	scriptorium-etcd-ca          tls.crt tls.key                    nobody: signs those of and for etcd
//
// etcd has a CA of its own: whoever has a certificate of it may write all of etcd, and
// so the certificates of agents are not of it. ca.crt is in each Secret the CA that
// vouches for those whom its owner talks to; trust's ca.crt is for those who have no
// certificate: a pipeline with a token, for example.
//
// What somebody else has made is left as it is: for an etcd or a NATS of one's own, an
// empty --etcd-service or --nats-service, and scriptorium-registry-etcd or
// scriptorium-registry-nats and scriptorium-agent-nats made by hand; for certificates of
// cert-manager, --certificates=false and Certificates with these secretNames; for a CA
// of one's own, scriptorium-ca made by hand.
//
// # The flags that name them
//
//	registryd
//	  --signing-key /etc/scriptorium/signing/signing.key
//	  --access-policy /etc/scriptorium/access/policy.yaml
//	  --listen :7070
//	  --tls-cert /etc/scriptorium/registry-tls/tls.crt
//	  --tls-key /etc/scriptorium/registry-tls/tls.key
//	  --tls-client-ca /etc/scriptorium/registry-tls/ca.crt
//	  --etcd-endpoints https://scriptorium-etcd:2379
//	  --etcd-ca /etc/scriptorium/registry-etcd/ca.crt
//	  --etcd-cert /etc/scriptorium/registry-etcd/tls.crt
//	  --etcd-key /etc/scriptorium/registry-etcd/tls.key
//	  --nats-url tls://scriptorium-nats:4222
//	  --nats-ca /etc/scriptorium/registry-tls/ca.crt
//	  --nats-user registry
//	  --nats-password-file /etc/scriptorium/registry-nats/password
//	registryd init
//	  --etcd-endpoints https://scriptorium-etcd:2379
//	  --etcd-ca /etc/scriptorium/registry-etcd/ca.crt
//	  --etcd-cert /etc/scriptorium/registry-etcd/tls.crt
//	  --etcd-key /etc/scriptorium/registry-etcd/tls.key
//	agentd
//	  --trusted-key /etc/scriptorium/trust/trusted.pem
//	  --registry dns:///scriptorium-registry:7070
//	  --registry-ca /etc/scriptorium/agent-tls/ca.crt
//	  --registry-cert /etc/scriptorium/agent-tls/tls.crt
//	  --registry-key /etc/scriptorium/agent-tls/tls.key
//	  --nats-url tls://scriptorium-nats:4222
//	  --nats-ca /etc/scriptorium/agent-tls/ca.crt
//	  --nats-user agent
//	  --nats-password-file /etc/scriptorium/agent-nats/password
//	operator
//	  --registry dns:///scriptorium-registry:7070
//	  --registry-ca /etc/scriptorium/operator-tls/ca.crt
//	  --registry-cert /etc/scriptorium/operator-tls/tls.crt
//	  --registry-key /etc/scriptorium/operator-tls/tls.key
//	nats-server --config FILE, of deploy/nats/nats-server.conf, with scriptorium-nats-users as envFrom and
//	  NATS_TLS_CERT=/etc/scriptorium/nats-tls/tls.crt
//	  NATS_TLS_KEY=/etc/scriptorium/nats-tls/tls.key
//	  NATS_TLS_CA=/etc/scriptorium/nats-tls/ca.crt
//	etcd
//	  --listen-client-urls https://0.0.0.0:2379 --advertise-client-urls https://scriptorium-etcd:2379
//	  --client-cert-auth --trusted-ca-file /etc/scriptorium/etcd-tls/ca.crt
//	  --cert-file /etc/scriptorium/etcd-tls/tls.crt --key-file /etc/scriptorium/etcd-tls/tls.key
//	  --listen-metrics-urls http://0.0.0.0:2381 (for the probes: /livez, /readyz)
//	  --enable-grpc-gateway=false
//	scriptctl, in the agent's pod (the agent's certificate may read everything): variables of the container
//	  SCRIPTORIUM_REGISTRY=dns:///scriptorium-registry:7070
//	  SCRIPTORIUM_CA=/etc/scriptorium/agent-tls/ca.crt
//	  SCRIPTORIUM_CERT=/etc/scriptorium/agent-tls/tls.crt
//	  SCRIPTORIUM_KEY=/etc/scriptorium/agent-tls/tls.key
//	  SCRIPTORIUM_AGENT=unix:/run/scriptorium/grpc.sock
//
// Everything runs as user and group 65532: mount with defaultMode 0440 and fsGroup 65532.
//
// Servers' certificates are for SERVICE, SERVICE.NAMESPACE, SERVICE.NAMESPACE.svc and
// SERVICE.NAMESPACE.svc.SUFFIX, for the pods of a headless service of that name (one
// label before SERVICE.NAMESPACE.svc), and for localhost, so that `kubectl port-forward`
// works.
//
// # Renewal
//
// CAs last 10 years, certificates one. All but NATS read their files again by
// themselves; NATS does at its restart or a SIGHUP, for which there are four months.
package bootstrap
