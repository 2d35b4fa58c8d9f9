package rpc_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestEvents: pages and a watch have the same events, and the watch goes on where the list began.
func TestEvents(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "one")
	b.publish(t, "route", "two")
	b.publish(t, "auth", "one")
	var listed []string
	token, watch := "", ""
	for {
		page, err := b.ListEvents(t.Context(), &registryv1.ListEventsRequest{Tenant: "acme", PageSize: 1, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.GetEvents() {
			listed = append(listed, e.GetName()+" "+e.GetEvent())
		}
		if watch == "" {
			watch = page.GetWatchToken()
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if got := strings.Join(listed, ", "); got != "auth publish, route publish, route publish" {
		t.Errorf("listed %s", got)
	}
	stream, err := b.WatchEvents(t.Context(), &registryv1.WatchEventsRequest{Tenant: "acme", Name: "route", Types: []string{"publish"}, Token: watch})
	if err != nil {
		t.Fatal(err)
	}
	b.publish(t, "auth", "two")
	b.publish(t, "route", "three")
	for got := 0; got == 0; {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetEvents() {
			if got++; e.GetName() != "route" || e.GetVersion() != 3 || e.GetAuthor() != "ann" || e.GetType() != "publish" {
				t.Errorf("watched %v", e)
			}
		}
	}
	none, err := b.ListEvents(t.Context(), &registryv1.ListEventsRequest{Since: timestamppb.New(time.Now().Add(time.Hour))})
	if err != nil || len(none.GetEvents()) != 0 || none.GetNextPageToken() != "" {
		t.Errorf("of the future: %v, %v", none, err)
	}
	_, err = b.ListEvents(t.Context(), &registryv1.ListEventsRequest{Since: &timestamppb.Timestamp{Nanos: -1}})
	if e := detail(t, err); e.GetKind() != string(script.Invalid) || e.GetField() != "since" {
		t.Errorf("since no time: %v", err)
	}
}

// TestWatchesOfEventsAreCharged: a caller who opens more and more gets an error, and does not take the memory of
// others.
func TestWatchesOfEventsAreCharged(t *testing.T) {
	b := newBench(t)
	const most = 900 // a connection has room for a thousand
	for i := range most {
		stream, err := b.WatchEvents(t.Context(), &registryv1.WatchEventsRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil {
			continue
		}
		if e := detail(t, err); e.GetKind() != string(script.Overloaded) {
			t.Errorf("%v", err)
		}
		t.Logf("%d watches are served", i)
		return
	}
	t.Errorf("%d watches are served", most)
}
