package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/rpc"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/agent/garbage"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// newFleetWorkerCommand is a process with some of a fleet's agents. The driver calls it
// on a Unix socket.
func newFleetWorkerCommand() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "fleet-worker", Short: "Run some agents of a fleet", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			garbage.LeaveRoom(ctx)
			var lc net.ListenConfig
			l, err := lc.Listen(ctx, "unix", socket)
			if err != nil {
				return err
			}
			defer context.AfterFunc(ctx, func() { _ = l.Close() })()
			server := rpc.NewServer()
			if err := server.RegisterName("Fleet", &fleetWorker{ctx: ctx}); err != nil {
				return err
			}
			server.Accept(l)
			return nil
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "path of the Unix socket")
	withProfile(cmd)
	return cmd
}

var errNotJoined = errors.New("no agents have joined")

// fleetWorker is the service of a process with some of a fleet's agents.
type fleetWorker struct {
	ctx context.Context

	mu     sync.Mutex
	disk   *fleetDisk
	agents []*fleetAgent
	leave  context.CancelFunc
	gone   sync.WaitGroup
	joined *sightings
	active *sightings

	lines []*natsLine
	heard *sightings
}

// FleetJoin says which agents a worker runs.
type FleetJoin struct {
	First, Count int // of the fleet's agents
	NATS         string
	Registries   []string // each agent pulls from one of them
	Trusted      string   // file of the key that signs what agents believe; "": they do not verify
	AtOnce       int      // agents that join at a time
	Warm         bool     // all but the first agent start with its scripts on their disks
	Patience     time.Duration
}

// FleetTimes are the times of something at each agent of a worker, or each line, in
// nanoseconds of Unix time.
type FleetTimes struct{ Begun, Done []int64 }

// Join starts the agents and returns when each has its first snapshot.
func (w *fleetWorker) Join(in FleetJoin, out *FleetTimes) error {
	keyring := seal.TrustEverything()
	if in.Trusted != "" {
		keys, err := seal.ReadPublicKeys(in.Trusted)
		if err != nil {
			return err
		}
		keyring = seal.NewKeyring(keys...)
	}
	ctx, leave := context.WithCancel(w.ctx)
	w.mu.Lock()
	w.leave, w.disk = leave, newFleetDisk()
	w.joined, w.active = newSightings(in.Count), newSightings(in.Count)
	w.active.expect(math.MaxInt64) // nothing, until Expect
	w.agents = make([]*fleetAgent, in.Count)
	w.mu.Unlock()
	slots := make(chan struct{}, in.AtOnce)
	first := make(chan struct{}) // is closed when the first agent has joined
	begun := make([]int64, in.Count)
	failed := make(chan error, in.Count)
	for i := range in.Count {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		begun[i] = time.Now().UnixNano()
		a, err := w.newAgent(&in, i, keyring, sync.OnceFunc(func() {
			<-slots
			if i == 0 {
				close(first)
			}
		}))
		if err != nil {
			return err
		}
		w.agents[i] = a
		w.gone.Go(func() {
			if err := a.run(ctx); err != nil {
				failed <- err
			}
		})
		if i == 0 && in.Warm {
			select {
			case <-first:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	bounded, cancel := context.WithTimeout(ctx, in.Patience)
	defer cancel()
	at, err := w.joined.await(bounded, 0, failed)
	*out = FleetTimes{Begun: begun, Done: at}
	return err
}

func (w *fleetWorker) newAgent(in *FleetJoin, i int, keyring *seal.Keyring, joined func()) (*fleetAgent, error) {
	disk := newAgentDisk(w.disk)
	if in.Warm && i > 0 {
		disk.copyFrom(w.agents[0].disk)
	}
	disk.activated = func(r script.Revision, at time.Time) { w.active.see(int64(r), i, at) }
	disk.saved = func(at time.Time) {
		w.joined.see(0, i, at)
		joined()
	}
	number := in.First + i
	return newFleetAgent(fmt.Sprintf("node-%05d.eu-central-1.compute.internal", number), number, in, keyring, disk)
}

// Joined returns how many agents have their first snapshot.
func (w *fleetWorker) Joined(_ struct{}, out *int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.joined != nil {
		*out = w.joined.seen(0)
	}
	return nil
}

// Await returns when each agent made the revision live.
func (w *fleetWorker) Await(revision int64, out *FleetTimes) (err error) {
	ctx, cancel := context.WithTimeout(w.ctx, changePatience)
	defer cancel()
	out.Done, err = w.active.await(ctx, revision, nil)
	return err
}

// Expect has the worker note when revisions above this one go live.
func (w *fleetWorker) Expect(above int64, _ *struct{}) error {
	if w.active == nil {
		return errNotJoined
	}
	w.active.expect(above)
	return nil
}

// FleetState is where the agents of a worker are.
type FleetState struct {
	Least, Most int64      // of their revisions
	Sums        []wire.Sum // over their releases: one if all are equal
	Scripts     int        // that the agent with the fewest has
}

// State returns where the agents are.
func (w *fleetWorker) State(_ struct{}, out *FleetState) error {
	if len(w.agents) == 0 {
		return errNotJoined
	}
	seen := map[wire.Sum]bool{}
	out.Scripts = math.MaxInt
	for i, a := range w.agents {
		revision, _ := a.follower.Position(time.Now())
		at := int64(revision)
		if i == 0 || at < out.Least {
			out.Least = at
		}
		out.Most = max(out.Most, at)
		scripts := 0
		for range a.disk.Live() {
			scripts++
		}
		out.Scripts = min(out.Scripts, scripts)
		if sum := a.disk.Checksum(script.Releases, 0, nil); !seen[sum] {
			seen[sum] = true
			out.Sums = append(out.Sums, sum)
		}
	}
	return nil
}

// Leave has all agents say good-bye.
func (w *fleetWorker) Leave(struct{}, *struct{}) error {
	if w.leave == nil {
		return errNotJoined
	}
	w.leave()
	w.gone.Wait()
	w.agents, w.disk = nil, nil
	return nil
}

// FleetListen says what bare connections listen to.
type FleetListen struct {
	Count         int
	NATS, Subject string
}

// Listen opens bare connections to NATS.
func (w *fleetWorker) Listen(in FleetListen, _ *struct{}) error {
	w.heard = newSightings(in.Count)
	for i := range in.Count {
		line, err := dialNATS(w.ctx, in.NATS, func(_ string, data []byte) {
			w.heard.see(int64(binary.BigEndian.Uint64(data)), i, time.Now())
		}, in.Subject)
		if err != nil {
			return errors.Join(err, w.Hush(struct{}{}, nil))
		}
		w.lines = append(w.lines, line)
	}
	return nil
}

// Heard returns when the message with the number came on each bare connection.
func (w *fleetWorker) Heard(number int64, out *FleetTimes) (err error) {
	ctx, cancel := context.WithTimeout(w.ctx, changePatience)
	defer cancel()
	out.Done, err = w.heard.await(ctx, number, nil)
	return err
}

// Hush closes the bare connections.
func (w *fleetWorker) Hush(struct{}, *struct{}) error { //nolint:unparam // net/rpc wants an error of each method
	for _, line := range w.lines {
		line.close()
	}
	w.lines = nil
	return nil
}
