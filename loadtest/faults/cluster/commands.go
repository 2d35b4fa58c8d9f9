package cluster

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// The command lines of every program, in one place.

// etcdArgs are those of member i. The intervals are shorter than etcd's own, so
// that an election fits into a schedule.
func (c *Cluster) etcdArgs(i int) []string {
	name := c.etcd[i].name
	return []string{
		"--name", name,
		"--data-dir", filepath.Join(c.cfg.Dir, name),
		"--listen-client-urls", "http://" + c.etcd[i].client,
		"--advertise-client-urls", "http://" + c.etcd[i].client,
		"--listen-peer-urls", "http://" + c.etcd[i].peer,
		"--initial-advertise-peer-urls", "http://" + c.links[peerLink(i)].Addr(),
		"--initial-cluster", c.initialCluster(),
		"--initial-cluster-token", "faults",
		"--heartbeat-interval", "50",
		"--election-timeout", "500",
		"--log-level", "warn",
	}
}

func (c *Cluster) initialCluster() string {
	members := make([]string, len(c.etcd))
	for i, m := range c.etcd {
		members[i] = m.name + "=http://" + c.links[peerLink(i)].Addr()
	}
	return strings.Join(members, ",")
}

// writeNATSConfig writes the configuration of server i. Servers neither tell their
// clients nor one another where others are, so that every connection goes through
// the links: of each pair the first dials the second.
func (c *Cluster) writeNATSConfig(i int) (path string, err error) {
	server := c.nats[i]
	var routes []string
	for j := i + 1; j < len(c.nats); j++ {
		routes = append(routes, fmt.Sprintf("%q", "nats-route://"+c.links[routeLink(i, j)].Addr()))
	}
	path = filepath.Join(c.cfg.Dir, server.name+".conf")
	text := fmt.Sprintf(`server_name: %s
listen: %q
cluster {
  name: faults
  listen: %q
  advertise: "127.0.0.1:1"
  no_advertise: true
  pool_size: -1
  compression: off
  routes: [%s]
}
`, server.name, server.client, server.peer, strings.Join(routes, ", "))
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// registryArgs are those of registry j.
func (c *Cluster) registryArgs(j int) []string {
	var etcd, nats []string
	for i := range c.etcd {
		etcd = append(etcd, "http://"+c.links[registryEtcdLink(j, i)].Addr())
	}
	for i := range c.nats {
		nats = append(nats, "nats://"+c.links[registryNATSLink(j, i)].Addr())
	}
	return []string{
		"--etcd-endpoints", strings.Join(etcd, ","),
		"--etcd-wait", "10m",
		"--nats-url", strings.Join(nats, ","),
		"--listen", c.registries[j].address,
		"--admin-address", c.registries[j].admin,
		"--signing-key", c.file(signingKey),
		"--insecure-plaintext", "--insecure-anonymous", // all of it is on this machine
		// Collect all the time; but a clock that jumps years ahead is not to take the
		// audit trail, which the checker believes.
		"--collect-interval", "700ms", "--tombstone-retention", "1s", "--audit-retention", "876000h",
		"--log-level", "info",
	}
}

// Intruder returns one more registry, which is not started yet. It signs with a key of its own.
func (c *Cluster) Intruder(ctx context.Context) (*Process, error) {
	c.intruders.Lock()
	defer c.intruders.Unlock()
	listen, err := c.ports.Take(ctx)
	if err != nil {
		return nil, err
	}
	key, err := seal.GenerateKey()
	if err != nil {
		return nil, err
	}
	private, err := seal.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	c.known++
	name := fmt.Sprintf("intruder-%d", c.known)
	if err := os.WriteFile(c.file(name+".key"), private, 0o600); err != nil {
		return nil, err
	}
	args := append(c.registryArgs(0), "--listen", listen, "--admin-address", "", "--signing-key", c.file(name+".key"))
	if i := slices.Index(args, "--listen"); i >= 0 {
		args = slices.Delete(args, i, i+2) // the listener of the registry whose arguments they were
	}
	return NewProcess(c.cfg.Dir, name, c.cfg.Binaries.Registryd, args, nil), nil
}

// found founds the fleet. The registries wait for it.
func (c *Cluster) found(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.cfg.Binaries.Registryd, "init", "--etcd-endpoints", "http://"+c.etcd[0].client, "--insecure-plaintext", "--log-level", "error")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("registryd init: %w: %s", err, out)
	}
	return nil
}

// agentArgs are those of agent k.
func (c *Cluster) agentArgs(k int) []string {
	a := c.Agents[k]
	var nats []string
	for i := range c.nats {
		nats = append(nats, "nats://"+c.links[agentNATSLink(k, i)].Addr())
	}
	return []string{
		"--name", a.Name,
		"--state-dir", a.StateDir,
		"--socket-dir", a.SocketDir,
		"--registry", c.links[agentRegistryLink(k)].Addr(),
		"--nats-url", strings.Join(nats, ","),
		"--trusted-key", c.file(trustedKey),
		"--insecure-plaintext",
		"--max-running", "4", // paused neighbours make a processor scarce; calls are to wait, not to fail
		"--log-level", "info",
	}
}

// Files of keys.
const (
	signingKey = "signing.key"
	trustedKey = "signing.pub"
)

func (c *Cluster) file(name string) string { return filepath.Join(c.cfg.Dir, name) }

// writeKeys makes the key that the registries sign with.
func (c *Cluster) writeKeys() (err error) {
	if c.key, err = seal.GenerateKey(); err != nil {
		return err
	}
	private, err := seal.EncodePrivateKey(c.key)
	if err != nil {
		return err
	}
	public, err := seal.EncodePublicKeys(c.key.Public().(ed25519.PublicKey))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(c.file(signingKey), private, 0o600),
		os.WriteFile(c.file(trustedKey), public, 0o600))
}

// Key is what the registries sign with.
func (c *Cluster) Key() ed25519.PrivateKey { return c.key }

// Names of links.
func peerLink(i int) string            { return fmt.Sprintf("peers>etcd-%d", i) }
func routeLink(i, j int) string        { return fmt.Sprintf("nats-%d>nats-%d", i, j) }
func registryEtcdLink(j, i int) string { return fmt.Sprintf("registry-%d>etcd-%d", j, i) }
func registryNATSLink(j, i int) string { return fmt.Sprintf("registry-%d>nats-%d", j, i) }
func agentNATSLink(k, i int) string    { return fmt.Sprintf("agent-%d>nats-%d", k, i) }
func agentRegistryLink(k int) string   { return fmt.Sprintf("agent-%d>registry", k) }
func writerLink(w int) string          { return fmt.Sprintf("writer-%d>registry", w) }

// Ports hands out ports for servers. They are below those that the kernel gives to
// outgoing connections, so that nobody takes one while its server is down.
type Ports struct{ next int }

const (
	firstPort = 12000
	lastPort  = 32000
)

// NewPorts starts at a place of its own for each process.
func NewPorts() *Ports { return &Ports{next: firstPort + os.Getpid()*64%(lastPort-firstPort)} }

// Take returns the address of a free port on loopback.
func (p *Ports) Take(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	for range lastPort - firstPort {
		if p.next++; p.next >= lastPort {
			p.next = firstPort
		}
		address := fmt.Sprintf("127.0.0.1:%d", p.next)
		l, err := lc.Listen(ctx, "tcp", address)
		if err != nil {
			continue
		}
		_ = l.Close()
		return address, nil
	}
	return "", fmt.Errorf("no port between %d and %d is free", firstPort, lastPort)
}
