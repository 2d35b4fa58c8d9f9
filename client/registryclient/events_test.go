package registryclient_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// eventful is a registry that has events, and forgets some.
type eventful struct {
	registryv1.UnimplementedRegistryServer

	mu     sync.Mutex
	events []*scriptv1.Event // by revision
	base   int64             // watches from before are refused
	grown  chan struct{}
	ended  chan struct{} // closed when watches end
	down   bool
	lists  []*registryv1.ListEventsRequest
}

var eventfulStart = time.Now().Add(-time.Hour)

func newEventful() *eventful {
	return &eventful{grown: make(chan struct{}), ended: make(chan struct{})}
}

// happen adds an event of that revision.
func (e *eventful) happen(revision int64, at time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, &scriptv1.Event{
		Id: fmt.Sprint("e", revision), Revision: revision, Time: timestamppb.New(eventfulStart.Add(at)), Type: "agent", Event: "lost", Tenant: "acme", Text: fmt.Sprint(revision),
	})
	close(e.grown)
	e.grown = make(chan struct{})
}

// fail ends the watches; while down, all calls fail. What was before base is forgotten.
func (e *eventful) fail(down bool, base int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down, e.base = down, base
	close(e.ended)
	e.ended = make(chan struct{})
}

// restore makes the events those of an older state.
func (e *eventful) restore(upTo int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = slices.DeleteFunc(e.events, func(m *scriptv1.Event) bool { return m.GetRevision() > upTo })
}

func (e *eventful) ListEvents(_ context.Context, m *registryv1.ListEventsRequest) (*registryv1.ListEventsResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return nil, status.Error(codes.Unavailable, "down")
	}
	e.lists = append(e.lists, m)
	resp := &registryv1.ListEventsResponse{}
	last := int64(0)
	if n := len(e.events); n > 0 {
		last = e.events[n-1].GetRevision()
	}
	after := len(e.events)
	if m.GetPageToken() == "" {
		resp.WatchToken = strconv.FormatInt(last, 10)
	} else {
		after, _ = strconv.Atoi(m.GetPageToken())
	}
	const page = 3 // whatever the client asks for
	for i := after - 1; i >= 0; i-- {
		if e.events[i].GetTime().AsTime().Before(m.GetSince().AsTime()) {
			continue
		}
		if len(resp.GetEvents()) == min(page, int(m.GetPageSize())) {
			resp.NextPageToken = strconv.Itoa(i + 1)
			break
		}
		resp.Events = append(resp.Events, e.events[i])
	}
	return resp, nil
}

func (e *eventful) WatchEvents(m *registryv1.WatchEventsRequest, stream grpc.ServerStreamingServer[registryv1.WatchEventsResponse]) error {
	at, _ := strconv.ParseInt(m.GetToken(), 10, 64)
	e.mu.Lock()
	ended := e.ended
	e.mu.Unlock()
	for {
		e.mu.Lock()
		grown, down, base := e.grown, e.down, e.base
		var news []*scriptv1.Event
		for _, event := range e.events {
			if event.GetRevision() > at {
				news = append(news, event)
			}
		}
		e.mu.Unlock()
		switch {
		case down:
			return status.Error(codes.Unavailable, "down")
		case at < base:
			return wire.ToStatus(script.Errorf(script.Conflict, "token", "too old"))
		}
		for _, event := range news {
			at = event.GetRevision()
			if err := stream.Send(&registryv1.WatchEventsResponse{Events: []*scriptv1.Event{event}, Token: strconv.FormatInt(at, 10)}); err != nil {
				return err
			}
		}
		select {
		case <-grown:
		case <-ended:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

func serveEvents(t *testing.T, e *eventful) *registryclient.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registry.sock")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterRegistryServer(server, e)
	go server.Serve(ln)
	t.Cleanup(server.Stop)
	return dial(t, "unix:"+path)
}

func TestEvents(t *testing.T) {
	e := newEventful()
	for i := range int64(10) {
		e.happen(i+1, time.Duration(i)*time.Minute)
	}
	c := serveEvents(t, e)
	for what, test := range map[string]struct {
		filter registryclient.EventFilter
		want   string
	}{
		"all":   {registryclient.EventFilter{}, "10 9 8 7 6 5 4 3 2 1"},
		"some":  {registryclient.EventFilter{Limit: 4}, "10 9 8 7"},
		"since": {registryclient.EventFilter{Since: eventfulStart.Add(8 * time.Minute)}, "10 9"},
	} {
		var got []string
		for event, err := range c.Events(t.Context(), test.filter) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, event.Text)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", what, got, test.want)
		}
	}
	for range c.Events(t.Context(), registryclient.EventFilter{Name: route, Types: []script.EventType{script.EventAgent, script.EventKey}}) {
		break
	}
	if m := e.lists[len(e.lists)-1]; m.GetTenant() != "acme" || m.GetName() != "route" || !slices.Equal(m.GetTypes(), []string{"agent", "key"}) {
		t.Errorf("asked for %v", m)
	}
}

// TestFollowEvents: each event comes once, in order, whatever becomes of the registry.
func TestFollowEvents(t *testing.T) {
	e := newEventful()
	for i := range int64(10) {
		e.happen(i+1, time.Duration(i)*time.Minute)
	}
	c := serveEvents(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	got, interrupted, over := make(chan string, 100), make(chan error, 100), make(chan struct{})
	go func() {
		defer close(over)
		for event, err := range c.FollowEvents(ctx, registryclient.EventFilter{Limit: 4}, func(err error) { interrupted <- err }) {
			if err != nil {
				t.Errorf("it ended in %v", err)
				return
			}
			got <- event.Text
		}
	}()
	want := func(when string, revisions ...string) {
		t.Helper()
		for _, revision := range revisions {
			select {
			case r := <-got:
				if r != revision {
					t.Fatalf("%s: %s, want %s", when, r, revision)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%s: no %s", when, revision)
			}
		}
	}
	want("the list, oldest first", "7", "8", "9", "10")
	e.happen(11, 11*time.Minute)
	want("live", "11")

	e.fail(true, 0)
	e.happen(12, 12*time.Minute)
	select {
	case err := <-interrupted:
		if script.KindOf(err) != script.Unavailable {
			t.Errorf("interrupted by %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nobody says that the registry is away")
	}
	e.fail(false, 0)
	want("after an outage", "12")

	e.fail(true, 14)
	e.happen(13, 11*time.Minute) // it happened before, and was recorded late
	e.happen(14, 14*time.Minute)
	e.fail(false, 14)
	want("after the registry has forgotten", "13", "14")
	e.happen(15, 15*time.Minute)
	want("live again", "15")

	e.fail(true, 0)
	e.restore(12)
	e.happen(13, 16*time.Minute)
	e.fail(false, 1000) // the token of before is of no state that there is
	want("after a restore", "13")

	cancel()
	<-over
	if len(got) > 0 {
		t.Errorf("more came: %s", <-got)
	}
}

// TestFollowNothing: without any answer, it ends in the error.
func TestFollowNothing(t *testing.T) {
	e := newEventful()
	e.fail(true, 0)
	var last error
	for _, err := range serveEvents(t, e).FollowEvents(t.Context(), registryclient.EventFilter{}, func(err error) { t.Errorf("it waits: %v", err) }) {
		last = err
	}
	if script.KindOf(last) != script.Unavailable {
		t.Errorf("it ended in %v", last)
	}
}
