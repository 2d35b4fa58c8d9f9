package agentd

import (
	"errors"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

const tenantSocketsFlag = "tenant-sockets"

// maxTenantSockets is how many tenants can have sockets of their own: each takes a listener and a goroutine for
// each protocol.
const maxTenantSockets = 256

// checkTenantSockets checks the values of the flag.
func checkTenantSockets(groups map[string]int) error {
	bad := func(format string, args ...any) error {
		return script.Errorf(script.Invalid, "--"+tenantSocketsFlag, format, args...)
	}
	if len(groups) > maxTenantSockets {
		return bad("names %d tenants: at most %d are allowed", len(groups), maxTenantSockets)
	}
	for tenant, gid := range groups {
		if err := script.ValidateLabel("tenant", tenant); err != nil {
			return bad("%w", err)
		}
		if gid < 0 || int64(gid) >= math.MaxUint32 {
			return bad("tenant %s has the group %d: want the number of a group", tenant, gid)
		}
	}
	return nil
}

// tenantSockets are the sockets of single tenants whose scripts run in the agent. Those of a tenant with a
// process of its own are that process's, at the same paths. It is safe for concurrent use.
type tenantSockets struct {
	dir    string
	groups map[string]int
	log    *slog.Logger

	mu      sync.Mutex // guards what follows
	apart   map[string]bool
	servers map[string]server // by protocol; nil until they serve
	open    map[string][]net.Listener
	closed  bool
	running sync.WaitGroup
}

func newTenantSockets(cfg Config) *tenantSockets {
	s := &tenantSockets{
		dir: filepath.Join(cfg.SocketDir, tenantsDir), groups: cfg.TenantSockets, log: cfg.Log,
		apart: map[string]bool{}, open: map[string][]net.Listener{},
	}
	if err := gateway.RemoveDead(s.dir, func(tenant string) bool { _, ok := s.groups[tenant]; return ok }); err != nil {
		s.log.Warn("sockets of tenants that an agent has left behind cannot be removed", "dir", s.dir, "error", err)
	}
	return s
}

// serve opens the sockets.
func (s *tenantSockets) serve(servers map[string]server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = servers
	if info, err := os.Stat(filepath.Dir(s.dir)); err == nil && len(s.groups) > 0 && info.Mode().Perm()&0o001 == 0 {
		s.log.Warn("the groups of --tenant-sockets cannot pass through the folder of the sockets: run chmod o+x on it, unless callers mount the folders of their tenants", "dir", filepath.Dir(s.dir), "mode", info.Mode().String())
	}
	for tenant := range s.groups {
		if err := s.listen(tenant); err != nil {
			return err
		}
	}
	return nil
}

// isolated gives the paths of the tenant's sockets to its own process, or takes them back.
func (s *tenantSockets) isolated(tenant string, apart bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.groups[tenant]; !ok {
		return
	}
	if s.apart[tenant] = apart; apart {
		s.shut(tenant)
		return
	}
	s.again(tenant)
}

// again opens the tenant's sockets, now or when that is possible. s.mu is held.
func (s *tenantSockets) again(tenant string) {
	err := s.listen(tenant)
	if err == nil {
		return
	}
	const later = time.Second
	s.log.Error("a tenant has no sockets of its own; trying again", "tenant", tenant, "after", later, "error", err)
	time.AfterFunc(later, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.again(tenant)
	})
}

// listen opens all of the tenant's sockets, or none. s.mu is held.
func (s *tenantSockets) listen(tenant string) error {
	if s.closed || s.servers == nil || s.apart[tenant] || len(s.open[tenant]) > 0 {
		return nil
	}
	if err := gateway.GroupFolder(s.dir, tenant, s.groups[tenant]); err != nil {
		return err
	}
	for _, protocol := range gateway.Protocols {
		l, err := gateway.Listen(filepath.Join(s.dir, tenant, protocol+".sock"))
		if err != nil {
			s.shut(tenant)
			return err
		}
		s.open[tenant] = append(s.open[tenant], l)
		server, one := s.servers[protocol], gateway.OneTenant(l, tenant)
		s.running.Go(func() {
			if err := server.Serve(one); !errors.Is(err, net.ErrClosed) && !s.ends() {
				s.log.Error("a socket of a tenant is not served any more", "tenant", tenant, "protocol", protocol, "error", err)
			}
		})
	}
	return nil
}

// shut closes the tenant's sockets, and removes them. Connections stay. s.mu is held.
func (s *tenantSockets) shut(tenant string) {
	for _, l := range s.open[tenant] {
		_ = l.Close()
	}
	delete(s.open, tenant)
}

func (s *tenantSockets) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close closes all sockets. The folders stay: a pod may have mounted one, and waits for the next agent.
func (s *tenantSockets) close() {
	s.mu.Lock()
	s.closed = true
	for tenant := range s.groups {
		s.shut(tenant)
	}
	s.mu.Unlock()
	s.running.Wait()
}
