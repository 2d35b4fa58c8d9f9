package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/natswire"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
)

// Process returns the process of that name.
func (c *Cluster) Process(name string) *Process {
	for _, p := range c.Processes() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Agent returns the agent of that name, nil if there is none.
func (c *Cluster) Agent(name string) *Agent {
	i := slices.IndexFunc(c.Agents, func(a *Agent) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return c.Agents[i]
}

// Registries are the addresses of the registries, without a link before them.
func (c *Cluster) Registries() []string {
	var addresses []string
	for _, r := range c.registries {
		addresses = append(addresses, r.address)
	}
	return addresses
}

// WriterAddress is where writer w finds a registry.
func (c *Cluster) WriterAddress(w int) string { return c.links[writerLink(w)].Addr() }

// NATS are the addresses of the servers of NATS, without a link before them.
func (c *Cluster) NATS() []string {
	var addresses []string
	for _, n := range c.nats {
		addresses = append(addresses, n.client)
	}
	return addresses
}

// Seams are the places where the network can be broken, each one link or several:
//
//	agent-K>nats  agent-K>registry  agent-K     the agent and all of the control plane
//	registry-J>nats  registry-J>etcd            of one registry
//	etcd-I                                      a member and the other members
//	etcd-I>etcd-J                               two members, both ways
//	nats-I>nats-J                               two servers
//	nats-I                                      a server and everyone else
//	writer-W>registry
func (c *Cluster) Seams() []string {
	var seams []string
	add := func(format string, args ...any) { seams = append(seams, fmt.Sprintf(format, args...)) }
	for k := range c.Agents {
		add("agent-%d>nats", k)
		add("agent-%d>registry", k)
		add("agent-%d", k)
	}
	for j := range c.registries {
		add("registry-%d>nats", j)
		add("registry-%d>etcd", j)
	}
	for i := range c.etcd {
		add("etcd-%d", i)
		for j := i + 1; j < len(c.etcd); j++ {
			add("etcd-%d>etcd-%d", i, j)
		}
	}
	for i := range c.nats {
		add("nats-%d", i)
		for j := i + 1; j < len(c.nats); j++ {
			add("nats-%d>nats-%d", i, j)
		}
	}
	for w := range c.cfg.Writers {
		add("writer-%d>registry", w)
	}
	return seams
}

// Break breaks a seam; the zero Fault mends it.
func (c *Cluster) Break(seam string, f netfault.Fault) {
	from, to, both := strings.Cut(seam, ">")
	switch {
	case strings.HasPrefix(from, "etcd-") && both:
		i, j := number(from), number(to)
		c.links[peerLink(j)].SetFrom(c.memberIDs[i], f)
		c.links[peerLink(i)].SetFrom(c.memberIDs[j], f)
	case strings.HasPrefix(from, "etcd-"):
		c.links[peerLink(number(from))].Set(f)
		for i := range c.etcd {
			c.links[peerLink(i)].SetFrom(c.memberIDs[number(from)], f)
		}
	default:
		for _, name := range c.names {
			if matches(name, seam, both) {
				c.links[name].Set(f)
			}
		}
	}
}

// matches reports whether a link is part of a seam: "agent-1>nats" is all of
// "agent-1>nats-0" and its like, "agent-1" whatever begins or ends there.
func matches(link, seam string, both bool) bool {
	if both {
		return link == seam || strings.HasPrefix(link, seam+"-")
	}
	from, to, _ := strings.Cut(link, ">")
	return from == seam || to == seam
}

func number(name string) int {
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return n
}

// Mend makes every link whole, lets everyone run on, and starts what is down.
func (c *Cluster) Mend() error {
	for _, l := range c.links {
		l.Heal()
	}
	for _, a := range c.Agents {
		a.Mangler.Set(natswire.Odds{})
		if err := a.Drain(); err != nil {
			return err
		}
	}
	for _, p := range c.Processes() {
		p.Resume()
	}
	if err := c.RestoreEtcd(); err != nil {
		return err
	}
	for _, p := range c.Processes() {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return nil
}

const filler = "filler" // a file of no interest to the agent

// Fill fills the agent's state folder to the last byte.
func (a *Agent) Fill() error {
	file, err := os.OpenFile(filepath.Join(a.StateDir, filler), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for size := 64 << 10; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return nil
}

// Drain makes room again.
func (a *Agent) Drain() error {
	err := os.Remove(filepath.Join(a.StateDir, filler))
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// Tear damages files of the agent's state, which must not run: it truncates them,
// flips a bit or removes them. It returns what it did.
func (a *Agent) Tear(random *rand.Rand) ([]string, error) {
	var files []string
	err := filepath.WalkDir(a.StateDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != filler && d.Name() != "lock" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		return nil, err
	}
	random.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	var done []string
	for _, path := range files[:1+random.IntN(min(4, len(files)))] {
		what, err := tear(path, random)
		if err != nil {
			return done, err
		}
		name, _ := filepath.Rel(a.StateDir, path)
		done = append(done, what+" "+name)
	}
	return done, nil
}

func tear(path string, random *rand.Rand) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	used := len(bytes.TrimRight(data, "\x00")) // what an agent's journal has after that is room
	switch choice := random.IntN(4); {
	case choice == 0:
		return "remove", os.Remove(path)
	case choice == 1 || used == 0:
		return "truncate", os.Truncate(path, int64(random.IntN(used+1)))
	default:
		bit := random.IntN(8 * used)
		data[bit/8] ^= 1 << (bit % 8)
		return "flip a bit of", os.WriteFile(path, data, 0o600)
	}
}

// Jump sets the wall clock of a registry or an agent so far from the true one; it
// stays so through restarts.
func (c *Cluster) Jump(name string, seconds int) error {
	path := filepath.Join(c.cfg.Dir, name+".clock")
	if a := c.Agent(name); a != nil {
		path = a.clock
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(seconds)), 0o600); err != nil {
		return err
	}
	c.Process(name).Signal(syscall.SIGUSR1)
	return nil
}
