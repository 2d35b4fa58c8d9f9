package console

import (
	"sync"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of streams. The registry takes 1,000 calls on a connection at a time, and lets others wait.
const (
	streamConns    = 4
	streamsPerConn = 900
)

// pool are the connections to the registry. Streams have their own, so that calls do not wait behind them.
type pool struct {
	calls grpc.ClientConnInterface

	mu      sync.Mutex
	streams [streamConns]grpc.ClientConnInterface
	open    [streamConns]int
}

// acquire returns a connection for a stream, until release is called.
func (p *pool) acquire() (conn grpc.ClientConnInterface, release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := 0
	for i := range p.open {
		if p.open[i] < p.open[least] {
			least = i
		}
	}
	if p.open[least] >= streamsPerConn {
		return nil, nil, script.Errorf(script.Limit, "", "the console has %d streams open for all its users, as many as it may: close other tabs, or start another console", streamConns*streamsPerConn)
	}
	p.open[least]++
	return p.streams[least], func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open[least]--
	}, nil
}
