// Package cluster runs a fleet as real processes: members of etcd, servers of NATS,
// registries and agents, with a link that can be broken between any two of them.
package cluster

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/natswire"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
)

// Members of etcd and servers of NATS.
const (
	EtcdMembers = 3
	NATSServers = 3
)

// Config of a cluster.
type Config struct {
	Binaries *Binaries
	Dir      string // all files are in it; it must be short enough for sockets
	// Registries, Agents and Writers (who each have a link of their own to the
	// registries).
	Registries, Agents, Writers int
	// DiskBytes is the size of an agent's state folder, if it can be mounted.
	DiskBytes int
	Seed      uint64 // of what happens to messages
}

// server is a process with the addresses that it listens on.
type server struct {
	*Process
	name         string
	client, peer string
}

type registry struct {
	*Process
	address, admin string
}

// Agent is one of the fleet.
type Agent struct {
	*Process
	StateDir, SocketDir string
	// SmallDisk: the state folder is a file system of its own that can be filled.
	SmallDisk bool
	Mangler   *natswire.Mangler // of what NATS tells the agent

	clock string // file
}

// Cluster is a running fleet.
type Cluster struct {
	cfg        Config
	etcd       []*server
	nats       []*server
	registries []*registry
	Agents     []*Agent
	links      map[string]*netfault.Link
	names      []string // of links, sorted
	memberIDs  map[int]string
	smallDisk  error // why there is none
	key        ed25519.PrivateKey

	intruders sync.Mutex
	known     int // intruders so far
	ports     *Ports
}

// Start starts everything and waits until it serves. The caller closes the cluster.
func Start(ctx context.Context, cfg Config) (c *Cluster, err error) {
	c = &Cluster{cfg: cfg, links: map[string]*netfault.Link{}, memberIDs: map[int]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	// What children inherit: a process that has only just started is not to die of it.
	signal.Ignore(syscall.SIGUSR1)
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "log"), 0o755); err != nil {
		return c, err
	}
	if err := c.assign(ctx); err != nil {
		return c, err
	}
	if err := c.connect(ctx); err != nil {
		return c, err
	}
	if err := c.prepare(); err != nil {
		return c, err
	}
	for _, p := range c.Processes() {
		if err := p.Start(); err != nil {
			return c, err
		}
	}
	if err := c.found(ctx); err != nil {
		return c, err
	}
	if err := c.AwaitReady(ctx); err != nil {
		return c, fmt.Errorf("the cluster did not come up: %w", err)
	}
	c.memberIDs, err = c.members(ctx)
	return c, err
}

// assign gives everyone a name and addresses.
func (c *Cluster) assign(ctx context.Context) error {
	c.ports = NewPorts()
	free := c.ports
	take := func(addresses ...*string) (err error) {
		for _, a := range addresses {
			if *a, err = free.Take(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range EtcdMembers {
		s := &server{name: fmt.Sprintf("etcd-%d", i)}
		if err := take(&s.client, &s.peer); err != nil {
			return err
		}
		c.etcd = append(c.etcd, s)
	}
	for i := range NATSServers {
		s := &server{name: fmt.Sprintf("nats-%d", i)}
		if err := take(&s.client, &s.peer); err != nil {
			return err
		}
		c.nats = append(c.nats, s)
	}
	for range c.cfg.Registries {
		r := &registry{}
		if err := take(&r.address, &r.admin); err != nil {
			return err
		}
		c.registries = append(c.registries, r)
	}
	for k := range c.cfg.Agents {
		dir := filepath.Join(c.cfg.Dir, fmt.Sprintf("agent-%d", k))
		c.Agents = append(c.Agents, &Agent{
			StateDir: filepath.Join(dir, "state"), SocketDir: filepath.Join(dir, "run"),
			Mangler: natswire.NewMangler(c.cfg.Seed + uint64(k)),
			clock:   filepath.Join(dir, "clock"),
		})
	}
	return nil
}

// connect makes the links.
func (c *Cluster) connect(ctx context.Context) error {
	var all []netfault.Config
	add := func(name string, upstreams ...string) {
		all = append(all, netfault.Config{Name: name, Upstreams: upstreams})
	}
	var registries []string
	for _, r := range c.registries {
		registries = append(registries, r.address)
	}
	for i, e := range c.etcd {
		all = append(all, netfault.Config{Name: peerLink(i), Upstreams: []string{e.peer}, Source: member})
		for j := range c.registries {
			add(registryEtcdLink(j, i), e.client)
		}
	}
	for i, n := range c.nats {
		for j := i + 1; j < len(c.nats); j++ {
			add(routeLink(i, j), c.nats[j].peer)
		}
		for j := range c.registries {
			add(registryNATSLink(j, i), n.client)
		}
		for k, a := range c.Agents {
			all = append(all, netfault.Config{Name: agentNATSLink(k, i), Upstreams: []string{n.client}, ToClient: a.Mangler.Pump})
		}
	}
	for k := range c.Agents {
		add(agentRegistryLink(k), registries...)
	}
	for w := range c.cfg.Writers {
		add(writerLink(w), registries...)
	}
	for _, cfg := range all {
		link, err := netfault.Listen(ctx, cfg)
		if err != nil {
			return err
		}
		c.links[cfg.Name] = link
		c.names = append(c.names, cfg.Name)
	}
	slices.Sort(c.names)
	return nil
}

// member tells which member of etcd a connection between peers comes from: every
// request between them says so.
func member(head []byte) (source string, ok bool) {
	end := bytes.Index(head, []byte("\r\n\r\n"))
	if end < 0 {
		return "", false
	}
	for line := range bytes.Lines(head[:end+2]) {
		if name, value, found := bytes.Cut(line, []byte(":")); found && bytes.EqualFold(name, []byte("X-Server-From")) {
			return string(bytes.TrimSpace(value)), true
		}
	}
	return "nobody", true
}

// prepare makes the processes and their files.
func (c *Cluster) prepare() error {
	if err := c.writeKeys(); err != nil {
		return err
	}
	dir, bin := c.cfg.Dir, c.cfg.Binaries
	for i, e := range c.etcd {
		e.Process = NewProcess(dir, e.name, bin.Etcd, c.etcdArgs(i), nil)
	}
	for i, n := range c.nats {
		config, err := c.writeNATSConfig(i)
		if err != nil {
			return err
		}
		n.Process = NewProcess(dir, n.name, bin.NATS, []string{"--config", config}, nil)
	}
	for j, r := range c.registries {
		name := fmt.Sprintf("registry-%d", j)
		r.Process = NewProcess(dir, name, bin.Registryd, c.registryArgs(j), []string{clockVariable + "=" + filepath.Join(dir, name+".clock")})
	}
	for k, a := range c.Agents {
		if err := errors.Join(os.MkdirAll(a.StateDir, 0o700), os.MkdirAll(a.SocketDir, 0o700)); err != nil {
			return err
		}
		if c.smallDisk == nil {
			if c.smallDisk = mountSmall(a.StateDir, c.cfg.DiskBytes); c.smallDisk == nil {
				a.SmallDisk = true
			}
		}
		a.Process = NewProcess(dir, fmt.Sprintf("agent-%d", k), bin.Agentd, nil, []string{clockVariable + "=" + a.clock})
		a.args = c.agentArgs(k)
	}
	return nil
}

// Processes returns all of them, in the order in which they are started.
func (c *Cluster) Processes() []*Process {
	var all []*Process
	for _, s := range slices.Concat(c.etcd, c.nats) {
		all = append(all, s.Process)
	}
	for _, r := range c.registries {
		all = append(all, r.Process)
	}
	for _, a := range c.Agents {
		all = append(all, a.Process)
	}
	return slices.DeleteFunc(all, func(p *Process) bool { return p == nil })
}

// SmallDisk returns why agents' disks cannot be filled; nil if they can.
func (c *Cluster) SmallDisk() error { return c.smallDisk }

// Close kills everything and unmounts what was mounted. It leaves the files.
func (c *Cluster) Close() error {
	var errs []error
	for _, p := range c.Processes() {
		p.Kill()
	}
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	for _, a := range c.Agents {
		if a.SmallDisk {
			errs = append(errs, unmount(a.StateDir))
		}
	}
	return errors.Join(errs...)
}
