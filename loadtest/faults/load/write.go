package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Writer changes scripts, one write after another. It is used by one goroutine.
type Writer struct {
	name    string
	client  *registryclient.Client
	random  *rand.Rand
	record  *Record
	scripts []script.Name
	seen    map[script.Name]script.Revision // the last that the registry answered
	count   int
}

// NewWriter returns a writer of the scripts that reaches registries at address. What
// it does follows from the seed. The caller closes it.
func NewWriter(name, address string, seed uint64, scripts []script.Name, record *Record) (*Writer, error) {
	client, err := registryclient.Dial(address,
		registryclient.WithDialOptions(grpc.WithChainUnaryInterceptor(countAttempts)))
	if err != nil {
		return nil, err
	}
	return &Writer{
		name: name, client: client, random: rand.New(rand.NewPCG(seed, 3)), record: record, scripts: scripts,
		seen: map[script.Name]script.Revision{},
	}, nil
}

// Close ends the writer's connection.
func (w *Writer) Close() { _ = w.client.Close() }

type attemptsKey struct{}

// countAttempts counts how often a request is sent: the client sends some again by
// itself.
func countAttempts(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if n, ok := ctx.Value(attemptsKey{}).(*int); ok {
		*n++
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Run writes until ctx is done, and finishes the write in progress.
func (w *Writer) Run(ctx context.Context) {
	for {
		pause := time.NewTimer(time.Duration(20+w.random.IntN(130)) * time.Millisecond)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		w.any(context.WithoutCancel(ctx))
	}
}

// any does one write.
func (w *Writer) any(ctx context.Context) {
	name := w.scripts[w.random.IntN(len(w.scripts))]
	number := uint64(1 + w.random.IntN(6))
	switch n := w.random.IntN(100); {
	case n < 45:
		w.Publish(ctx, name)
	case n < 57:
		w.do(ctx, name, script.ChangePin, number, "")
	case n < 68:
		w.do(ctx, name, script.ChangeRelease, 0, "")
	case n < 78:
		w.do(ctx, name, script.ChangeRollback, number, "")
	case n < 83:
		w.do(ctx, name, script.ChangeDisable, 0, "")
	case n < 91:
		w.do(ctx, name, script.ChangeEnable, 0, "")
	default:
		w.do(ctx, name, script.ChangeDelete, 0, "")
	}
}

// bulk is more source than travels with an event, so that agents must fetch it.
const bulk = 80 << 10

// Publish publishes a source that nobody has published yet, and that returns the ID
// of the write. It reports whether that was acknowledged.
func (w *Writer) Publish(ctx context.Context, name script.Name) bool {
	source := fmt.Sprintf("function handle() return %q end\n", w.nextID())
	if w.random.IntN(10) == 0 {
		source += "--" + strings.Repeat("x", bulk) + "\n"
	}
	return w.do(ctx, name, script.ChangePublish, 0, source)
}

// nextID is that of the write that comes next.
func (w *Writer) nextID() string { return fmt.Sprintf("%s-%d", w.name, w.count+1) }

// settings of every script: generous, for the machine is busy.
func settings() *script.Settings {
	return &script.Settings{
		Spec: script.Spec{
			Limits: script.Limits{Timeout: script.MaxLimits().Timeout, SourceBytes: script.MaxSourceBytes},
		},
		HistoryLimit: script.MaxHistoryLimit,
	}
}

const (
	// patience is how long a writer waits for an answer.
	patience = 1500 * time.Millisecond
	// maxTries is how often a writer asks for the same, as long as the answer leaves
	// open whether it was done.
	maxTries = 3
)

// do does one write and keeps what came of it.
func (w *Writer) do(ctx context.Context, name script.Name, change script.Change, version uint64, source string) bool {
	w.count++
	attempts := 0
	ctx = context.WithValue(ctx, attemptsKey{}, &attempts)
	entry := history.Write{
		ID: fmt.Sprintf("%s-%d", w.name, w.count), Writer: w.name, Script: name.String(),
		Change: string(change), Version: version, Start: w.record.Now(),
	}
	if source != "" {
		entry.Digest = script.DigestOf([]byte(source)).String()
	}
	write := registryclient.Write{Author: w.name, Note: entry.ID, RequestID: registryclient.NewRequestID()}
	if last := w.seen[name]; last != 0 && w.random.IntN(5) == 0 {
		write.ExpectedRevision = last // which may be out of date by now
	}
	release, changed, err := w.try(ctx, name, change, version, source, write)
	entry.End, entry.Attempts = w.record.Now(), attempts
	switch {
	case err == nil:
		w.seen[name] = release.Revision
		entry.Outcome, entry.Changed = history.Acked, changed
		entry.Revision, entry.Active = int64(release.Revision), release.Active.Number
	case refused(err) && attempts == 1:
		entry.Outcome = history.Refused
	default:
		entry.Outcome = history.Unclear
	}
	if err != nil {
		entry.Err = err.Error()
	}
	w.record.write(entry)
	return err == nil
}

// refused reports whether the registry said that it did not do the write.
func refused(err error) bool {
	switch script.KindOf(err) {
	case script.NotFound, script.Invalid, script.Conflict, script.Denied, script.Script:
		return true
	default:
		return false
	}
}

// try sends a write until it has an answer, as the client's documentation allows.
func (w *Writer) try(ctx context.Context, name script.Name, change script.Change, version uint64, source string, write registryclient.Write) (release script.Release, changed bool, err error) {
	for range maxTries {
		bounded, cancel := context.WithTimeout(ctx, patience)
		release, changed, err = w.send(bounded, name, change, version, source, write)
		cancel()
		if kind := script.KindOf(err); kind != script.Unavailable && kind != script.Timeout {
			break
		}
	}
	return release, changed, err
}

func (w *Writer) send(ctx context.Context, name script.Name, change script.Change, version uint64, source string, write registryclient.Write) (script.Release, bool, error) {
	switch change {
	case script.ChangePublish:
		published, err := w.client.Publish(ctx, registryclient.PublishRequest{
			Name: name, Source: []byte(source), Settings: settings(), Write: write,
		})
		return published.Release, published.Changed, err
	case script.ChangePin:
		return w.client.Pin(ctx, name, version, write)
	case script.ChangeRelease:
		return w.client.LiftHold(ctx, name, write)
	case script.ChangeRollback:
		return w.client.Rollback(ctx, name, version, write)
	case script.ChangeDelete:
		release, err := w.client.Delete(ctx, name, write)
		return release, err == nil, err
	default:
		return w.client.SetEnabled(ctx, name, change == script.ChangeEnable, write)
	}
}
