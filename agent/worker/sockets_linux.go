package worker

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
)

// socket is one of a tenant's own. The agent keeps it open, so that connections wait
// there while a process is replaced, and accepts none itself.
type socket struct {
	protocol string
	listener *net.UnixListener
	file     *os.File // the same, to be handed over
}

// sockets are those of one tenant. It is safe for concurrent use.
type sockets struct {
	mu       sync.Mutex // guards what follows
	open     []socket
	troubles map[string]string // by protocol: why there is none
	closed   bool
}

// listen opens those of the tenant's sockets that are not open, and reports whether it
// opened one. Without them its calls can still be forwarded.
func (t *tenant) listen() (opened bool) {
	s := &t.sockets
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.pool.cfg.Dir == "" || s.closed || len(s.open) == len(gateway.Protocols) {
		return false
	}
	for _, protocol := range gateway.Protocols {
		if slices.ContainsFunc(s.open, func(o socket) bool { return o.protocol == protocol }) {
			continue
		}
		path := filepath.Join(t.pool.cfg.Dir, t.name, protocol+".sock")
		o, err := t.listenOn(path)
		if err != nil {
			if s.troubles[protocol] != err.Error() { // once is enough, however often it is tried
				t.pool.cfg.Log.Error("a tenant has no socket of its own; the agent's sockets serve it, and it is tried again", "tenant", t.name, "socket", path, "error", err)
				s.troubles[protocol] = err.Error()
			}
			continue
		}
		o.protocol = protocol
		s.open, opened = append(s.open, o), true
		delete(s.troubles, protocol)
	}
	return opened
}

// list returns the sockets that are open.
func (s *sockets) list() []socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.open)
}

func (t *tenant) listenOn(path string) (socket, error) {
	if gid, ok := t.pool.cfg.Groups[t.name]; ok {
		if err := gateway.GroupFolder(t.pool.cfg.Dir, t.name, gid); err != nil {
			return socket{}, err
		}
	}
	l, err := gateway.Listen(path)
	if err != nil {
		return socket{}, err
	}
	f, err := l.File()
	if err != nil {
		return socket{}, errors.Join(err, l.Close())
	}
	return socket{listener: l, file: f}, nil
}

// closeSockets removes them: who connects is refused from then on. The folder goes with
// them if it is not to stay, and has no other files. That of a group stays.
func (t *tenant) closeSockets(folder bool) {
	s := &t.sockets
	_, grouped := t.pool.cfg.Groups[t.name]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, o := range s.open {
		_ = errors.Join(o.listener.Close(), o.file.Close())
	}
	if folder && !grouped && len(s.open) > 0 {
		_ = os.Remove(filepath.Join(t.pool.cfg.Dir, t.name))
	}
	s.open = nil
}
