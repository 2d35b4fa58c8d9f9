package local_test

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// owned is a stack whose etcd, registry, signing key and NATS belong to an attacker. Its agents
// require signatures of the tenant acme, by a key that the attacker does not have.
type owned struct {
	*stack
	key    *publisher.Signer
	fleet  string
	sealer *seal.Sealer
	marks  int
}

func startOwned(t *testing.T) *owned {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	known, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tenant-keys.yaml")
	text := fmt.Sprintf("publishers:\n  - tenants: [acme]\n    keys: [%q]\n", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(known))))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &owned{stack: start(t, local.WithTenantKeys(file))}
	if o.key, err = publisher.NewSigner(private); err != nil {
		t.Fatal(err)
	}
	fleet, err := os.ReadFile(filepath.Join(o.dir, "fleet"))
	if err != nil {
		t.Fatal(err)
	}
	o.fleet = strings.TrimSpace(string(fleet))
	stolen, err := seal.ReadPrivateKey(filepath.Join(o.dir, "signing.key"))
	if err != nil {
		t.Fatal(err)
	}
	o.sealer = seal.NewSealer(stolen)
	return o
}

// publishSigned is what the publisher does.
func (o *owned) publishSigned(n int) {
	o.t.Helper()
	settings := script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}}
	v := script.Version{Digest: script.DigestOf(edition(n)), Engine: "lua", Entrypoint: "handle"}
	signature, err := publisher.Sign(o.t.Context(), publisher.StatementOf(name, v, settings.Spec), o.key)
	if err != nil {
		o.t.Fatal(err)
	}
	p, err := o.registry.Publish(o.t.Context(), registryclient.PublishRequest{
		Name: name, Source: edition(n), Settings: &settings, Signature: signature, Write: registryclient.Write{Author: "test"},
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.converge(p.Release.Revision)
}

// forged are sources that must not run.
const forgedEdition = 666

// forgeries are what is made of a release.
var forgeries = map[string]func(r *scriptv1.Release, forged []byte){
	"an unsigned version": func(r *scriptv1.Release, forged []byte) {
		v := &scriptv1.Version{Number: 99, Digest: forged, Engine: "lua", Entrypoint: "handle", Size: int64(len(edition(forgedEdition)))}
		r.Active, r.Latest, r.Retained = v, 99, append(r.GetRetained(), v)
	},
	"the signature of another version": func(r *scriptv1.Release, forged []byte) {
		v := proto.Clone(r.GetRetained()[0]).(*scriptv1.Version)
		v.Number, v.Digest = 99, forged
		r.Active, r.Latest, r.Retained = v, 99, append(r.GetRetained(), v)
	},
	"the number of the signed version": func(r *scriptv1.Release, forged []byte) {
		r.Active.Digest, r.Retained[0].Digest = forged, forged
	},
	"a candidate on all agents": func(r *scriptv1.Release, forged []byte) {
		r.Retained = append(r.GetRetained(), &scriptv1.Version{Number: 99, Digest: forged, Engine: "lua", Entrypoint: "handle", Size: int64(len(edition(forgedEdition)))})
		r.Latest, r.Candidate = 99, &scriptv1.Candidate{Version: 99, Attempt: 1, Step: 1, Threshold: math.MaxUint32, Percent: 99}
	},
	"another function of the signed source": func(r *scriptv1.Release, _ []byte) {
		r.Active.Entrypoint, r.Retained[0].Entrypoint = "other", "other"
	},
	"another config": func(r *scriptv1.Release, _ []byte) { r.Settings.Config = []byte(`{"upstream":"evil"}`) },
	"other limits":   func(r *scriptv1.Release, _ []byte) { r.Settings.Limits.Coroutines = true },
}

// TestWhoOwnsEtcdTheRegistryAndNATS: nobody but the publisher can make agents run a line of a
// tenant that requires signatures.
func TestWhoOwnsEtcdTheRegistryAndNATS(t *testing.T) {
	o := startOwned(t)
	o.publishSigned(1)
	o.answers(answer(1))

	good := o.record()
	for what, forge := range forgeries {
		t.Log("etcd has", what)
		r := proto.Clone(good).(*scriptv1.Release)
		d := script.DigestOf(edition(forgedEdition))
		forge(r, d[:])
		o.refused(o.put(r))
		o.answers(answer(1))
	}
	if err := o.StopAgent(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := o.StartAgent(1); err != nil {
		t.Fatal(err)
	}
	o.awaitAnswer(0, answer(1))

	t.Log("NATS has an event")
	o.publishEvent(o.forgedRelease(good))
	o.marked(o.agents)
	o.answers(answer(1))

	t.Log("the registry is another process")
	o.serveRegistry(o.forgedRelease(good))
	if err := o.StartAgent(agents + 1); err != nil { // one that has nothing on its disk
		t.Fatal(err)
	}
	fresh, err := agentclient.New("unix:" + filepath.Join(o.AgentDir(agents+1), "grpc.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	o.marked(append([]*agentclient.Client{fresh}, o.agents...))
	o.answers(answer(1))
	if result, err := fresh.Call(t.Context(), name.String()); err == nil {
		t.Errorf("a new agent answers %s", result.Values[0])
	}
}

func (o *owned) etcdKey(key string) string { return etcdstore.DefaultPrefix + key }

// record is what etcd has of the script.
func (o *owned) record() *scriptv1.Release {
	o.t.Helper()
	got, err := etcdtest.Client(o.t, o.EtcdEndpoint()).Get(o.t.Context(), o.etcdKey("releases/"+name.String()))
	if err != nil {
		o.t.Fatal(err)
	}
	r := &scriptv1.Release{}
	if err := proto.Unmarshal(got.Kvs[0].Value, r); err != nil {
		o.t.Fatal(err)
	}
	return r
}

// put writes the record to etcd, and the forged source.
func (o *owned) put(r *scriptv1.Release) script.Revision {
	o.t.Helper()
	c := etcdtest.Client(o.t, o.EtcdEndpoint())
	d := script.DigestOf(edition(forgedEdition))
	if _, err := c.Put(o.t.Context(), o.etcdKey("blobs/"+hex.EncodeToString(d[:])), string(edition(forgedEdition))); err != nil {
		o.t.Fatal(err)
	}
	record, err := proto.Marshal(r)
	if err != nil {
		o.t.Fatal(err)
	}
	put, err := c.Put(o.t.Context(), o.etcdKey("releases/"+name.String()), string(record))
	if err != nil {
		o.t.Fatal(err)
	}
	return script.Revision(put.Header.Revision)
}

// refused waits until all agents say that they do not run the revision, and why.
func (o *owned) refused(revision script.Revision) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	var last registryclient.FleetStatus
	for fleet, err := range o.registry.WatchStatus(ctx, name) {
		if err != nil {
			o.t.Fatalf("%d is not refused: %v; last: %+v", revision, err, last)
		}
		last = fleet
		for _, one := range fleet.Scripts {
			if one.Release.Revision == revision && one.Failed == agents {
				if e := one.Failures[0].Err; e.Kind != script.Denied || e.Field != "signature" || one.Converged {
					o.t.Errorf("%v; converged: %v", e, one.Converged)
				}
				return
			}
		}
	}
}

// forgedRelease is a release of revisions to come, and a script of a tenant that requires no
// signatures: by it shows that agents have seen both.
func (o *owned) forgedRelease(good *scriptv1.Release) []script.Release {
	o.t.Helper()
	o.marks++
	r := proto.Clone(good).(*scriptv1.Release)
	d := script.DigestOf(edition(forgedEdition))
	forgeries["an unsigned version"](r, d[:])
	r.Revision = 1_000_000 * int64(o.marks)
	forged, err := wire.ToRelease(r)
	if err != nil {
		o.t.Fatal(err)
	}
	mark := script.Version{Number: 1, Digest: script.DigestOf(edition(o.marks)), Engine: "lua", Entrypoint: "handle", Size: len(edition(o.marks))}
	return []script.Release{forged, {
		Name: script.Name{Tenant: "shop", Script: fmt.Sprintf("mark-%d", o.marks)}, Revision: forged.Revision,
		Active: mark, Latest: 1, Enabled: true, Retained: []script.Version{mark}, Settings: forged.Settings,
	}}
}

// sources are those of the forged and of the mark.
func (o *owned) sources() (list []*scriptv1.Source) {
	for _, n := range []int{forgedEdition, o.marks} {
		d := script.DigestOf(edition(n))
		list = append(list, &scriptv1.Source{Digest: d[:], Content: edition(n)})
	}
	return list
}

// entries are the releases as the registry signs them.
func (o *owned) entries(releases []script.Release) (sealed [][]byte) {
	o.t.Helper()
	for _, r := range releases {
		sealed = append(sealed, o.seal(wire.FromReleaseEntry(o.fleet, r)))
	}
	return sealed
}

func (o *owned) seal(m proto.Message) []byte {
	o.t.Helper()
	data, err := o.sealer.Seal(m)
	if err != nil {
		o.t.Fatal(err)
	}
	return data
}

// marked waits until the agents answer the mark.
func (o *owned) marked(clients []*agentclient.Client) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	for _, c := range clients {
		if !eventually(ctx, func() bool {
			result, err := c.Call(ctx, fmt.Sprintf("shop/mark-%d", o.marks))
			return err == nil && string(result.Values[0]) == answer(o.marks)
		}) {
			o.t.Fatal("an agent has not seen what was forged")
		}
	}
}

// publishEvent has NATS carry the releases.
func (o *owned) publishEvent(releases []script.Release) {
	o.t.Helper()
	password, err := os.ReadFile(filepath.Join(o.dir, "nats.password"))
	if err != nil {
		o.t.Fatal(err)
	}
	conn, err := nats.Connect(o.NATSURL(), nats.UserInfo("scriptorium", strings.TrimSpace(string(password))))
	if err != nil {
		o.t.Fatal(err)
	}
	defer conn.Close()
	event := o.seal(&eventv1.Event{
		Fleet: o.fleet, Group: script.GroupAll, Revision: int64(releases[0].Revision), PreviousRevision: 1,
		Entries: o.entries(releases), Sources: o.sources(),
	})
	if err := conn.Publish(wire.Subjects{Prefix: wire.DefaultPrefix}.Event(script.GroupAll), event); err != nil {
		o.t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		o.t.Fatal(err)
	}
}

// serveRegistry answers agents in the place of the registry.
func (o *owned) serveRegistry(releases []script.Release) {
	o.t.Helper()
	if err := o.StopRegistry(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
	path := strings.TrimPrefix(o.RegistryTarget(), "unix:")
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		o.t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterFeedServer(server, &forger{owned: o, releases: releases})
	go server.Serve(l)
	o.t.Cleanup(server.Stop)
}

// forger answers everybody with a full snapshot.
type forger struct {
	registryv1.UnimplementedFeedServer
	*owned
	releases []script.Release
}

func (f *forger) Pull(req *registryv1.PullRequest, stream registryv1.Feed_PullServer) error {
	head := int64(f.releases[0].Revision)
	return stream.Send(&registryv1.PullResponse{Page: f.seal(&eventv1.Page{
		Fleet: f.fleet, Group: script.GroupAll, Nonce: req.GetNonce(), Last: true, HeadRevision: head, Full: req.GetSince() < head,
		Since: req.GetSince(), SinceFleet: req.GetFleet(), Entries: f.entries(f.releases),
	}), Sources: f.sources()})
}

func (f *forger) FetchSources(_ *registryv1.FetchSourcesRequest, stream registryv1.Feed_FetchSourcesServer) error {
	return stream.Send(&registryv1.FetchSourcesResponse{Sources: f.sources()})
}
