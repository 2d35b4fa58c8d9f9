package worker

import (
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
)

// socket is one of a tenant's own. The agent keeps it open, so that connections wait
// there while a process is replaced, and accepts none itself.
type socket struct {
	protocol string
	listener *net.UnixListener
	file     *os.File // the same, to be handed over
}

// protocols that a tenant has sockets for.
var protocols = []string{"grpc", "http", "resp"}

// listen opens the tenant's sockets. Without them its calls can still be forwarded.
func (t *tenant) listen() {
	if t.pool.cfg.Dir == "" {
		return
	}
	for _, protocol := range protocols {
		path := filepath.Join(t.pool.cfg.Dir, t.name, protocol+".sock")
		s, err := listen(path)
		if err != nil {
			t.pool.cfg.Log.Error("a tenant has no socket of its own; the agent's sockets serve it", "tenant", t.name, "socket", path, "error", err)
			continue
		}
		s.protocol = protocol
		t.sockets = append(t.sockets, s)
	}
}

func listen(path string) (socket, error) {
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

// closeSockets removes them: who connects is refused from then on.
func (t *tenant) closeSockets() {
	for _, s := range t.sockets {
		_ = errors.Join(s.listener.Close(), s.file.Close())
	}
	_ = os.Remove(filepath.Join(t.pool.cfg.Dir, t.name)) // it may have other files
}
