package browser_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// atOnce is how many scripts or agents come at once.
const atOnce = 32

// publishMany publishes so many scripts of tenant acme: s-00000, s-00001, …
func (w *world) publishMany(t *testing.T, scripts int) {
	t.Helper()
	many, ctx := errgroup.WithContext(t.Context())
	many.SetLimit(atOnce)
	for i := range scripts {
		many.Go(func() error {
			_, err := w.Registry.Publish(ctx, registryclient.PublishRequest{
				Name:   script.Name{Tenant: "acme", Script: fmt.Sprintf("s-%05d", i)},
				Source: []byte("function handle() end"),
				Write:  registryclient.Write{Author: "test"},
			})
			return err
		})
	}
	if err := many.Wait(); err != nil {
		t.Fatal(err)
	}
}

// report has so many agents report to the registry, as agents do that are in a session: crowd-00000, crowd-00001, … The
// statuses are made by change, which may lie.
func (w *world) report(t *testing.T, agents int, change func(i int, m *eventv1.Status)) {
	t.Helper()
	password, err := os.ReadFile(filepath.Join(w.Dir, "nats.password"))
	if err != nil {
		t.Fatal(err)
	}
	bus, err := nats.Connect(w.Stack.NATSURL(), nats.UserInfo("scriptorium", strings.TrimSpace(string(password))))
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	conn, err := grpc.NewClient(w.Stack.RegistryTarget(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	feed := registryv1.NewFeedClient(conn)
	many, ctx := errgroup.WithContext(t.Context())
	many.SetLimit(atOnce)
	for i := range agents {
		many.Go(func() error {
			name := fmt.Sprintf("crowd-%05d", i)
			page, session, err := join(ctx, feed, name)
			if err != nil {
				return err
			}
			m := &eventv1.Status{
				Fleet: page.GetFleet(), Agent: name, Incarnation: "1", Sequence: 1, Software: "1.0", ActivatedRevision: page.GetHeadRevision(),
				SentAt: timestamppb.New(time.Now()), Labels: map[string]string{"topology.kubernetes.io/zone": fmt.Sprint("zone-", i%5)},
			}
			change(i, m)
			data, err := seal.SealStatus(m, session)
			if err != nil {
				return err
			}
			return bus.Publish(wire.Subjects{Prefix: wire.DefaultPrefix}.Status(name), data)
		})
	}
	if err := many.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := bus.Flush(); err != nil {
		t.Fatal(err)
	}
}

// join gets the session in which the registry believes the agent.
func join(ctx context.Context, feed registryv1.FeedClient, agent string) (*eventv1.Page, seal.Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := feed.Pull(ctx, &registryv1.PullRequest{Nonce: []byte("a nonce of 16 by"), Agent: agent, Incarnation: "1"})
	if err != nil {
		return nil, seal.Session{}, err
	}
	resp, err := stream.Recv()
	if err != nil {
		return nil, seal.Session{}, err
	}
	page := &eventv1.Page{}
	_, err = seal.Unpack(resp.GetPage(), page)
	return page, seal.Session{Token: page.GetSession(), Key: page.GetSessionKey()}, err
}
