package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestDoctorFromAgents: what etcd and the registries have forgotten comes back as it was from
// the agents. Whoever has the password of NATS and older entries changes nothing.
func TestDoctorFromAgents(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	data := registryclient.DataWrite{Author: "test"}
	flag := script.ValueKey{Tenant: name.Tenant, Key: "flag"}
	keys := []string{"releases/" + name.String(), "tenants/" + name.Tenant, "values/" + flag.String()}
	var older [][]byte
	for i := range 2 {
		if _, _, err := s.registry.SetTenant(ctx, name.Tenant, &script.TenantSettings{Concurrency: 7 + i}, data); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.registry.PutValue(ctx, flag, fmt.Append(nil, "on ", i), data); err != nil {
			t.Fatal(err)
		}
		settings := script.Settings{Spec: patient()}
		settings.Config, settings.Limits.Instructions = fmt.Appendf(nil, `{"n":%d}`, i), uint64(50_000+i)
		p, err := s.registry.Publish(ctx, registryclient.PublishRequest{
			Name: name, Source: edition(1 + i), Settings: &settings, Write: registryclient.Write{Author: "test"},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.converge(p.Release.Revision)
		s.answers(answer(1 + i))
		if i == 0 {
			older = s.sealedEntries(keys)
		}
	}
	before, err := s.registry.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	source, content := script.DigestOf(edition(2)), script.DigestOf([]byte("on 1"))
	for _, key := range keys {
		s.spoil(key, "garbage")
	}
	s.spoil(fmt.Sprintf("blobs/%x", content[:]), "garbage")
	s.spoil(fmt.Sprintf("blobs/%x", source[:]), "garbage")()
	s.restartRegistry()
	s.unreadable(keys...)
	s.agentsKnown(agents)

	fromAgents := repairs
	fromAgents.FromAgents = true
	for key, f := range s.doctor(registryclient.DoctorOptions{}) {
		if !strings.Contains(f.Remedy, "--from-agents") {
			t.Errorf("without asking agents: %s: %+v", key, f)
		}
	}
	s.forgeCopies(keys, older)
	found := s.doctor(registryclient.DoctorOptions{FromAgents: true})
	if len(found) != len(keys) {
		t.Errorf("it finds %+v", found)
	}
	for key, f := range found {
		if !f.Repairable || f.Repaired || !strings.Contains(f.Remedy, "from the agent agent-") {
			t.Errorf("without a repair: %s: %+v", key, f)
		}
	}
	found = s.doctor(fromAgents)
	if len(found) != len(keys)+2 || !found[wire.SourceKey(source)].Repaired || !found[wire.SourceKey(content)].Repaired {
		t.Errorf("it finds %+v", found)
	}
	for key, f := range found {
		if !f.Repaired || !strings.Contains(f.Remedy, "from the agent agent-") {
			t.Errorf("%s: %+v", key, f)
		}
	}
	if found := s.doctor(registryclient.DoctorOptions{FromAgents: true}); len(found) != 0 {
		t.Errorf("after the repair it finds %+v", found)
	}
	s.unreadable()
	now, err := s.registry.Get(ctx, name)
	if err != nil || now.Revision <= before.Revision {
		t.Errorf("the script after the repair: %+v, %v", now, err)
	}
	now.Revision, now.ChangedAt = before.Revision, before.ChangedAt
	if !reflect.DeepEqual(now, before) {
		t.Errorf("the script after the repair: %+v, want %+v", now, before)
	}
	if value, content, err := s.registry.Value(ctx, flag); err != nil || string(content) != "on 1" {
		t.Errorf("the value: %+v %q, %v", value, content, err)
	}
	if tenant, err := s.registry.Tenant(ctx, name.Tenant); err != nil || tenant.Settings.Concurrency != 8 {
		t.Errorf("the settings: %+v, %v", tenant, err)
	}
	if got, err := s.registry.Source(ctx, script.Ref{Name: name, Version: 2}); err != nil || script.DigestOf(got.Source) != source {
		t.Errorf("the source: %q, %v", got.Source, err)
	}
	s.noDrift(1)
	s.answers(answer(2))

	s.doctorWhileFrozen(fromAgents)

	// Without NATS it says so.
	s.spoil(keys[2], "garbage")()
	s.restartRegistry()
	s.StopNATS()
	if f := s.doctor(fromAgents)[keys[2]]; f.Repaired || !strings.Contains(f.Remedy, "NATS") {
		t.Errorf("without NATS: %+v", f)
	}
}

// doctorWhileFrozen: a script comes back from agents after the thaw alone.
func (s *stack) doctorWhileFrozen(fromAgents registryclient.DoctorOptions) {
	s.t.Helper()
	ctx, key := s.t.Context(), "releases/"+name.String()
	if _, err := s.registry.Freeze(ctx, 0, nil, "ann", "incident 12"); err != nil {
		s.t.Fatal(err)
	}
	s.spoil(key, "garbage")()
	s.restartRegistry()
	s.unreadable(key)
	s.agentsKnown(agents)
	if f := s.doctor(fromAgents)[key]; f.Repaired || !strings.Contains(f.Remedy, "frozen by ann") {
		s.t.Errorf("while the registry is frozen: %+v", f)
	}
	s.unreadable(key)
	if _, err := s.registry.Thaw(ctx, "ann", ""); err != nil {
		s.t.Fatal(err)
	}
	if f := s.doctor(fromAgents)[key]; !f.Repaired {
		s.t.Errorf("after the thaw: %+v", f)
	}
	s.unreadable()
}

// agentsKnown waits until the registry hears so many agents.
func (s *stack) agentsKnown(want int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if !eventually(ctx, func() bool {
		known := 0
		for a, err := range s.registry.Agents(ctx, false) {
			if err == nil && !a.Unknown {
				known++
			}
		}
		return known == want
	}) {
		s.t.Fatalf("the registry does not hear %d agents", want)
	}
}

// natsConn returns a connection with the password of NATS.
func (s *stack) natsConn() *nats.Conn {
	s.t.Helper()
	password, err := os.ReadFile(filepath.Join(s.dir, "nats.password"))
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := nats.Connect(s.NATSURL(), nats.UserInfo("scriptorium", strings.TrimSpace(string(password))))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return conn
}

// sealedEntries returns what the registry sends of the objects with the keys.
func (s *stack) sealedEntries(keys []string) [][]byte {
	s.t.Helper()
	conn, err := grpc.NewClient(s.RegistryTarget(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	stream, err := registryv1.NewFeedClient(conn).Pull(s.t.Context(), &registryv1.PullRequest{Nonce: []byte("a nonce of 16 by")})
	if err != nil {
		s.t.Fatal(err)
	}
	found := make([][]byte, len(keys))
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.t.Fatal(err)
		}
		var page eventv1.Page
		if _, err := seal.Unpack(resp.GetPage(), &page); err != nil {
			s.t.Fatal(err)
		}
		for _, sealed := range page.GetEntries() {
			var e eventv1.Entry
			if _, err := seal.Unpack(sealed, &e); err != nil {
				s.t.Fatal(err)
			}
			if i := slices.Index(keys, e.GetObject().GetKey()); i >= 0 {
				found[i] = sealed
			}
		}
	}
	if slices.ContainsFunc(found, func(sealed []byte) bool { return sealed == nil }) {
		s.t.Fatal("the registry does not send all of them")
	}
	return found
}

// forgeCopies answers each Recall at once, in the names of all agents, with the entries, and
// with another content for each source.
func (s *stack) forgeCopies(keys []string, entries [][]byte) {
	s.t.Helper()
	conn := s.natsConn()
	subjects := wire.Subjects{Prefix: wire.DefaultPrefix}
	if _, err := conn.Subscribe(subjects.Recall(), func(msg *nats.Msg) {
		var m eventv1.Recall
		if _, err := seal.Unpack(msg.Data, &m); err != nil {
			s.t.Error(err)
			return
		}
		for _, agent := range m.GetAgents() {
			for _, key := range m.GetKeys() {
				forged := &eventv1.Copy{Fleet: m.GetFleet(), Id: m.GetId(), Agent: agent, Key: key, Content: []byte("return 'forged'")}
				if i := slices.Index(keys, key); i >= 0 {
					forged.Content = entries[i]
				}
				data, err := seal.SealCopy(forged)
				if err := errors.Join(err, conn.Publish(subjects.Copies(agent), data)); err != nil {
					s.t.Error(err)
				}
			}
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		s.t.Fatal(err)
	}
}
