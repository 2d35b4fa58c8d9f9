package registryclient

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// EventFilter says which events of the timeline.
type EventFilter struct {
	// Name: the zero Name selects the whole fleet, one without Script all of the tenant.
	Name  script.Name
	Types []script.EventType // none: all
	Since time.Time          // the zero Time: all that are kept
	Limit int                // at most so many of those that were before the call; 0: all
}

func (f *EventFilter) types() []string {
	types := make([]string, len(f.Types))
	for i, t := range f.Types {
		types[i] = string(t)
	}
	return types
}

// Events yields what happened, newest first. It asks for events page by page as they are consumed; an error
// ends the sequence.
func (c *Client) Events(ctx context.Context, f EventFilter) iter.Seq2[script.Event, error] {
	return func(yield func(script.Event, error) bool) { c.listEvents(ctx, f, yield) }
}

// listEvents yields the events, and returns the token for a watch from before that.
func (c *Client) listEvents(ctx context.Context, f EventFilter, yield func(script.Event, error) bool) (token string) {
	req := &registryv1.ListEventsRequest{Tenant: f.Name.Tenant, Name: f.Name.Script, Types: f.types(), PageSize: maxPage}
	if !f.Since.IsZero() {
		req.Since = timestamppb.New(f.Since)
	}
	for seen := 0; ; req.PageSize = maxPage {
		if f.Limit > 0 {
			req.PageSize = int32(min(f.Limit-seen, maxPage))
		}
		resp, err := call(ctx, c, c.registry.ListEvents, req)
		if err != nil {
			yield(script.Event{}, err)
			return token
		}
		if req.GetPageToken() == "" {
			token = resp.GetWatchToken()
		}
		for _, m := range resp.GetEvents() {
			if seen++; !yield(wire.ToEvent(m), nil) || seen == f.Limit {
				return token
			}
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return token
		}
	}
}

// FollowEvents yields what happened, oldest first, and then what happens from then on, in the order in which
// the registry records it, until ctx is done. Once a registry has answered, it waits while none does, and
// leaves no event out; it calls interrupted with the reason each time that it tries in vain. An error is
// the last, such as a Limit if too many events came meanwhile.
func (c *Client) FollowEvents(ctx context.Context, f EventFilter, interrupted func(error)) iter.Seq2[script.Event, error] {
	return func(yield func(script.Event, error) bool) {
		follow := &eventFollower{client: c, filter: f, yield: yield, started: time.Now()}
		for list := true; ctx.Err() == nil; {
			var err error
			if list {
				err = follow.list(ctx)
			}
			if err == nil && !follow.over {
				list = false
				err = follow.watch(ctx)
			}
			switch e := script.AsError(err); {
			case follow.over || ctx.Err() != nil:
				return
			case e.Kind == script.Conflict && e.Field == "token": // older than the registry remembers
				list = true
				pause(ctx, followPause)
			case e.Kind != script.Unavailable || !follow.listed:
				yield(script.Event{}, err)
				return
			default:
				interrupted(err)
				pause(ctx, followPause)
			}
		}
	}
}

const (
	// eventsLate is how long after it happened an event is recorded at the latest, with some room for
	// clocks that differ.
	eventsLate = 15 * time.Minute
	// maxMissed is how many events that came meanwhile are held in memory.
	maxMissed = 100_000
)

// eventFollower is one FollowEvents.
type eventFollower struct {
	client  *Client
	filter  EventFilter
	yield   func(script.Event, error) bool
	over    bool // nobody wants more
	started time.Time
	listed  bool
	token   string
	// last is when the newest event happened that was yielded, and revision the highest of one.
	last     time.Time
	revision script.Revision
}

func (f *eventFollower) tell(e script.Event) {
	if e.Time.After(f.last) {
		f.last = e.Time
	}
	f.revision = max(f.revision, e.Revision)
	f.over = f.over || !f.yield(e, nil)
}

// list yields the events that there are, or those that came after what was yielded.
func (f *eventFollower) list(ctx context.Context) error {
	filter := f.filter
	if f.listed {
		filter.Limit = 0
		from := f.last
		if from.IsZero() {
			from = f.started
		}
		if from = from.Add(-eventsLate); from.After(filter.Since) {
			filter.Since = from
		}
	}
	var events []script.Event
	var failed error
	token := f.client.listEvents(ctx, filter, func(e script.Event, err error) bool {
		if err == nil {
			events = append(events, e)
		}
		failed = err
		return !f.listed || len(events) <= maxMissed
	})
	switch {
	case failed != nil:
		return failed
	case f.listed && len(events) > maxMissed:
		return script.Errorf(script.Limit, "", "more than %d events came while no registry could be reached: list those since %s", maxMissed, f.last.Format(time.RFC3339))
	}
	// The registry's store was restored from a backup if what happened last has a lower revision.
	rewound := len(events) > 0 && events[0].Revision < f.revision
	known, last := f.revision, f.last
	for _, e := range slices.Backward(events) {
		if e.Revision > known || rewound && e.Time.After(last) {
			f.tell(e)
		}
		if f.over {
			return nil
		}
	}
	f.listed, f.token = true, token
	return nil
}

// watch yields what happens after the token.
func (f *eventFollower) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.client.registry.WatchEvents(ctx, &registryv1.WatchEventsRequest{
		Tenant: f.filter.Name.Tenant, Name: f.filter.Name.Script, Types: f.filter.types(), Token: f.token,
	})
	if err != nil {
		return f.client.fault(ctx, err)
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return script.Errorf(script.Unavailable, "", "the registry at %s ended the stream: it may be restarting", f.client.target)
		}
		if err != nil {
			return f.client.fault(ctx, err)
		}
		for _, m := range resp.GetEvents() {
			if f.tell(wire.ToEvent(m)); f.over {
				return nil
			}
		}
		f.token = resp.GetToken()
	}
}
