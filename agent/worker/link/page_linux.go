package link

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Page is memory that an agent shares with one process, so that what is said often
// costs no message, and what was said last outlives the process: how far the agent
// has come, that the process still turns, and which scripts it runs.
//
// Nothing that the process writes there is believed but for what concerns itself.
type Page struct {
	mem []byte

	mu   sync.Mutex // guards free, which is the process's own
	free []int
}

// Layout of the page, in words of eight bytes.
const (
	wordRevision  = 0
	wordStaleness = 1
	wordBeats     = 2
	firstSlot     = 8
	pageBytes     = 16 << 10
	words         = pageBytes / 8
)

// NewPage returns an empty page, and the file that MapPage makes the same one of in
// another process. The caller closes both.
func NewPage() (*Page, *os.File, error) {
	fd, err := unix.MemfdCreate("scriptorium-page", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("make the shared page: %w", err)
	}
	f := os.NewFile(uintptr(fd), "page")
	if err := f.Truncate(pageBytes); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make the shared page: %w", err), f.Close())
	}
	// A process that could shrink it could stop the agent at its next look.
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("seal the shared page: %w", err), f.Close())
	}
	p, err := MapPage(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return p, f, nil
}

// MapPage returns the page of the file, which stays the caller's.
func MapPage(f *os.File) (*Page, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the shared page: %w", err)
	}
	p := &Page{mem: mem}
	for slot := words - 1; slot >= firstSlot; slot-- {
		p.free = append(p.free, slot)
	}
	return p, nil
}

// Close unmaps the page. Nobody uses it any more.
func (p *Page) Close() error { return unix.Munmap(p.mem) }

func (p *Page) word(i int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&p.mem[i*8])) // a mapping is aligned to its pages
}

// SetPosition says how far the agent has come.
func (p *Page) SetPosition(at gateway.Position) {
	p.word(wordRevision).Store(uint64(at.Revision))
	p.word(wordStaleness).Store(uint64(at.Staleness))
}

// Position returns what SetPosition said last.
func (p *Page) Position() gateway.Position {
	return gateway.Position{
		Revision:  script.Revision(p.word(wordRevision).Load()),
		Staleness: time.Duration(p.word(wordStaleness).Load()),
	}
}

// Beat says that the process still turns.
func (p *Page) Beat() { p.word(wordBeats).Add(1) }

// Beats returns how often it did.
func (p *Page) Beats() uint64 { return p.word(wordBeats).Load() }

// Mark stands for what a process runs or compiles. It is never 0.
type Mark uint64

// MarkScript returns the mark of a script that runs.
func MarkScript(name script.Name) Mark {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name.Tenant))
	_, _ = h.Write([]byte{'/'})
	_, _ = h.Write([]byte(name.Script))
	return Mark(h.Sum64() | 1)
}

// MarkTrial returns the mark of a script's test that runs, of a version that others do not
// run yet.
func MarkTrial(name string) Mark { return markOf("trial ", name) }

// MarkShadow returns the mark of a script's candidate that runs in the shadow of calls.
func MarkShadow(name script.Name) Mark { return markOf("shadow ", name.String()) }

// MarkUnpublished returns the mark of a script that runs and is not published.
func MarkUnpublished() Mark { return markOf("unpublished ", "") }

func markOf(kind, name string) Mark {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind))
	_, _ = h.Write([]byte(name))
	return Mark(h.Sum64() | 1)
}

// MarkSource returns the mark of a source that is compiled.
func MarkSource(d script.Digest) Mark {
	h := fnv.New64a()
	_, _ = h.Write(d[:])
	return Mark(h.Sum64() | 1)
}

// Enter marks something as running until Leave is called with the slot.
func (p *Page) Enter(m Mark) (slot int) {
	p.mu.Lock()
	if len(p.free) == 0 { // thousands run: nobody could be blamed anyhow
		p.mu.Unlock()
		return 0
	}
	slot = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.mu.Unlock()
	p.word(slot).Store(uint64(m))
	return slot
}

// Leave takes back a mark.
func (p *Page) Leave(slot int) {
	if slot == 0 {
		return
	}
	p.word(slot).Store(0)
	p.mu.Lock()
	p.free = append(p.free, slot)
	p.mu.Unlock()
}

// Running returns the marks that are set.
func (p *Page) Running() map[Mark]bool {
	running := map[Mark]bool{}
	for slot := firstSlot; slot < words; slot++ {
		if m := p.word(slot).Load(); m != 0 {
			running[Mark(m)] = true
		}
	}
	return running
}
