package rpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// secret stands in everything that acme has: nobody else may see it.
const secret = "kept-from-others"

// ask is a request that one role of the tenant acme is needed for.
type ask struct {
	name     string
	method   string // of the services; each has an ask
	needs    access.Role
	everyone bool // answers everybody, with what they may see
	requests func(setup) []proto.Message
}

// setup is what is there when something is asked for: a script of acme with two
// versions, of which 2 is active, one that belongs to an owner, one with a candidate, one in a
// change set on trial, a value and settings.
type setup struct {
	digest   []byte
	content  []byte          // the digest of a value's
	exported []proto.Message // to import it again
}

func one(m proto.Message) func(setup) []proto.Message {
	return func(setup) []proto.Message { return []proto.Message{m} }
}

var asked = []ask{
	{"new script", "Publish", access.Publish, false, one(&registryv1.PublishRequest{Tenant: "acme", Name: "new", Source: []byte("x"), Author: "ann"})},
	{"new version", "Publish", access.Publish, false, one(&registryv1.PublishRequest{Tenant: "acme", Name: secret, Source: []byte("x"), Author: "ann"})},
	{"dry run", "Publish", access.Publish, false, one(&registryv1.PublishRequest{Tenant: "acme", Name: secret, Source: []byte("x"), Author: "ann", DryRun: true})},
	{"disable by publishing", "Publish", access.Release, false, one(&registryv1.PublishRequest{Tenant: "acme", Name: secret, Source: []byte("two " + secret), Author: "ann", Enabled: new(bool)})},
	{"force", "Publish", access.Admin, false, one(&registryv1.PublishRequest{Tenant: "acme", Name: "owned", Source: []byte("x"), Author: "ann", Force: true})},
	{"pin", "Pin", access.Release, false, one(&registryv1.PinRequest{Tenant: "acme", Name: secret, Version: 1, Author: "ann"})},
	{"release", "LiftHold", access.Release, false, one(&registryv1.LiftHoldRequest{Tenant: "acme", Name: "held", Author: "ann"})},
	{"unpin", "Unpin", access.Release, false, one(&registryv1.UnpinRequest{Tenant: "acme", Name: "held", Author: "ann"})},
	{"roll back", "Rollback", access.Release, false, one(&registryv1.RollbackRequest{Tenant: "acme", Name: secret, Author: "ann"})},
	{"disable", "SetEnabled", access.Release, false, one(&registryv1.SetEnabledRequest{Tenant: "acme", Name: secret, Author: "ann"})},
	{"delete", "Delete", access.Admin, false, one(&registryv1.DeleteRequest{Tenant: "acme", Name: secret, Author: "ann"})},
	{"another's script", "SetOwner", access.Admin, false, one(&registryv1.SetOwnerRequest{Tenant: "acme", Name: "owned", NewOwner: "me", Author: "ann", Force: true})},
	{"promote", "Steer", access.Release, false, one(&registryv1.SteerRequest{Tenant: "acme", Name: "tried", Steering: registryv1.Steering_STEERING_PROMOTE, Author: "ann"})},
	{"abort", "Steer", access.Release, false, one(&registryv1.SteerRequest{Tenant: "acme", Name: "tried", Steering: registryv1.Steering_STEERING_ABORT, Author: "ann"})},
	{"retry", "Steer", access.Release, false, one(&registryv1.SteerRequest{Tenant: "acme", Name: "tried", Steering: registryv1.Steering_STEERING_RETRY, Author: "ann"})},
	{"get", "Get", access.Read, false, one(&registryv1.GetRequest{Tenant: "acme", Name: secret})},
	{"list", "List", access.Read, false, one(&registryv1.ListRequest{Tenant: "acme"})},
	{"list all", "List", access.Read, true, one(&registryv1.ListRequest{})},
	{"source", "GetSource", access.Read, false, one(&registryv1.GetSourceRequest{Tenant: "acme", Name: secret})},
	{"history", "History", access.Read, false, one(&registryv1.HistoryRequest{Tenant: "acme", Name: secret})},
	{"audit", "Audit", access.Admin, false, one(&registryv1.AuditRequest{Tenant: "acme"})},
	{"export", "Export", access.Admin, false, one(&registryv1.ExportRequest{Tenant: "acme"})},
	{"doctor", "Doctor", access.Admin, false, one(&registryv1.DoctorRequest{Tenant: "acme", Repair: true, Author: "ann"})},
	{"import", "Import", access.Admin, false, func(s setup) []proto.Message {
		options := &registryv1.ImportOptions{Author: "ann", Overwrite: true}
		return append([]proto.Message{&registryv1.ImportRequest{Item: &registryv1.ImportRequest_Options{Options: options}}}, s.exported...)
	}},
	{"status", "Status", access.Read, false, one(&registryv1.StatusRequest{Tenant: "acme", Name: secret})},
	{"status of all", "Status", access.Read, true, one(&registryv1.StatusRequest{})},
	{"find", "FindScripts", access.Read, false, one(&registryv1.FindScriptsRequest{Tenant: "acme"})},
	{"find in all", "FindScripts", access.Read, true, one(&registryv1.FindScriptsRequest{Search: secret})},
	{"watch", "WatchStatus", access.Read, false, one(&registryv1.WatchStatusRequest{Tenant: "acme"})},
	{"watch all", "WatchStatus", access.Read, true, one(&registryv1.WatchStatusRequest{})},
	{"watch a rollout", "WatchRollout", access.Read, false, one(&registryv1.WatchRolloutRequest{Tenant: "acme", Name: "tried", Agents: 10})},
	{"pull", "Pull", access.Read, false, one(&registryv1.PullRequest{Tenants: []string{"acme"}, Nonce: bytes.Repeat([]byte{1}, 16)})},
	{"sources", "FetchSources", access.Read, true, func(s setup) []proto.Message {
		return []proto.Message{&registryv1.FetchSourcesRequest{Digests: [][]byte{s.digest}}}
	}},
	{"put", "PutValue", access.Publish, false, one(&registryv1.PutValueRequest{Tenant: "acme", Key: "new", Content: []byte("x"), Author: "ann"})},
	{"overwrite", "PutValue", access.Publish, false, one(&registryv1.PutValueRequest{Tenant: "acme", Key: secret, Content: []byte("x"), Author: "ann"})},
	{"value", "GetValue", access.Read, false, one(&registryv1.GetValueRequest{Tenant: "acme", Key: secret})},
	{"history of a value", "GetValueHistory", access.Read, false, one(&registryv1.GetValueHistoryRequest{Tenant: "acme", Key: secret})},
	{"roll a value back", "RollbackValue", access.Publish, false, one(&registryv1.RollbackValueRequest{Tenant: "acme", Key: secret, Version: 1, Author: "ann"})},
	{"values", "ListValues", access.Read, false, one(&registryv1.ListValuesRequest{Tenant: "acme"})},
	{"remove a value", "DeleteValue", access.Publish, false, one(&registryv1.DeleteValueRequest{Tenant: "acme", Key: secret, Author: "ann"})},
	{"content of a value", "FetchSources", access.Read, true, func(s setup) []proto.Message {
		return []proto.Message{&registryv1.FetchSourcesRequest{Digests: [][]byte{s.content}}}
	}},
	{"publish a change set", "PublishChangeSet", access.Publish, false, one(&registryv1.PublishChangeSetRequest{
		Tenant: "acme", Name: "next", Scripts: []*registryv1.PublishRequest{{Name: secret, Source: []byte("x")}}, Values: []*registryv1.StagedContent{{Key: secret, Content: []byte("x")}}, Author: "ann",
	})},
	{"force a change set", "PublishChangeSet", access.Admin, false, one(&registryv1.PublishChangeSetRequest{
		Tenant: "acme", Name: "next", Scripts: []*registryv1.PublishRequest{{Name: "owned", Source: []byte("x")}}, Author: "ann", Force: true,
	})},
	{"give a change set up", "RollbackChangeSet", access.Release, false, one(&registryv1.RollbackChangeSetRequest{Tenant: "acme", Name: secret, Author: "ann"})},
	{"change set", "GetChangeSet", access.Read, false, one(&registryv1.GetChangeSetRequest{Tenant: "acme", Name: secret})},
	{"change sets", "ListChangeSets", access.Read, false, one(&registryv1.ListChangeSetsRequest{Tenant: "acme"})},
	{"set a tenant", "SetTenant", access.Admin, false, one(&registryv1.SetTenantRequest{Tenant: "acme", Settings: &scriptv1.TenantSettings{Concurrency: 1}, Author: "ann"})},
	{"unset a tenant", "SetTenant", access.Admin, false, one(&registryv1.SetTenantRequest{Tenant: "acme", Author: "ann"})},
	{"tenant", "GetTenant", access.Read, false, one(&registryv1.GetTenantRequest{Tenant: "acme"})},
	{"logs", "WatchLogs", access.Read, false, one(&registryv1.WatchLogsRequest{Tenant: "acme", Name: secret})},
	{"events", "ListEvents", access.Read, false, one(&registryv1.ListEventsRequest{Tenant: "acme"})},
	{"events of a script", "ListEvents", access.Read, false, one(&registryv1.ListEventsRequest{Tenant: "acme", Name: secret})},
	{"watch events", "WatchEvents", access.Read, false, one(&registryv1.WatchEventsRequest{Tenant: "acme", Token: "0"})},
	{"top", "Top", access.Read, false, one(&registryv1.TopRequest{Tenant: "acme", Name: secret})},
	{"top of a tenant", "Top", access.Read, false, one(&registryv1.TopRequest{Tenant: "acme"})},
	{"usage", "Usage", access.Read, false, one(&registryv1.UsageRequest{Tenant: "acme"})},
	{"logs of a tenant", "WatchLogs", access.Read, false, one(&registryv1.WatchLogsRequest{Tenant: "acme"})},
	{"recent calls", "RecentCalls", access.Read, false, one(&registryv1.RecentCallsRequest{Tenant: "acme", Name: secret})},
	{"recent logs", "RecentLogs", access.Read, false, one(&registryv1.RecentLogsRequest{Tenant: "acme", Name: secret})},
	{"a shadow's differences", "ShadowDiff", access.Read, false, one(&registryv1.ShadowDiffRequest{Tenant: "acme", Name: secret})},
	{"recent logs of a tenant", "RecentLogs", access.Read, false, one(&registryv1.RecentLogsRequest{Tenant: "acme"})},
	{"profile", "ProfileScript", access.Read, false, one(&registryv1.ProfileScriptRequest{Tenant: "acme", Name: secret})},
	{"try", "Try", access.Publish, false, one(&registryv1.TryRequest{Tenant: "acme", Name: secret, Source: []byte("x")})},
	{"end a profile", "EndProfile", access.Read, false, one(&registryv1.EndProfileRequest{Tenant: "acme", Name: secret, Profile: "id"})},
}

// askedOfAll are about all tenants: that of one of them is not enough.
var askedOfAll = []ask{
	{"audit of all", "Audit", access.Admin, false, one(&registryv1.AuditRequest{})},
	{"export of all", "Export", access.Admin, false, one(&registryv1.ExportRequest{})},
	{"doctor of all", "Doctor", access.Admin, false, one(&registryv1.DoctorRequest{})},
	{"accept a loss", "AcceptLoss", access.Admin, false, one(&registryv1.AcceptLossRequest{Objects: 1, Author: "ann"})},
	{"freeze", "Freeze", access.Admin, false, one(&registryv1.FreezeRequest{Note: "incident 12", Author: "ann"})},
	{"check", "Check", access.Read, true, one(&registryv1.CheckRequest{})},
	{"grants", "ListGrants", access.Admin, false, one(&registryv1.ListGrantsRequest{})},
	{"thaw", "Thaw", access.Admin, false, one(&registryv1.ThawRequest{Author: "ann"})},
	{"tenants", "ListTenants", access.Admin, false, one(&registryv1.ListTenantsRequest{})},
	{"events of all", "ListEvents", access.Read, false, one(&registryv1.ListEventsRequest{})},
	{"watch events of all", "WatchEvents", access.Read, false, one(&registryv1.WatchEventsRequest{Token: "0"})},
	{"profile an agent", "ProfileAgent", access.Admin, false, one(&registryv1.ProfileAgentRequest{Agent: "n1", Type: "heap"})},
	{"end a profile of an agent", "EndProfile", access.Admin, false, one(&registryv1.EndProfileRequest{Agents: []string{"n1"}, Profile: "id"})},
	{"agents", "ListAgents", access.Read, false, one(&registryv1.ListAgentsRequest{})},
	{"find agents", "FindAgents", access.Read, false, one(&registryv1.FindAgentsRequest{})},
	{"watch a rollout by labels", "WatchRollout", access.Read, false, one(&registryv1.WatchRolloutRequest{Tenant: "acme", Name: "tried", GroupBy: "zone"})},
	{"top of all", "Top", access.Read, false, one(&registryv1.TopRequest{})},
	{"usage of all", "Usage", access.Admin, false, one(&registryv1.UsageRequest{})},
	{"pull of all", "Pull", access.Read, false, one(&registryv1.PullRequest{Nonce: bytes.Repeat([]byte{1}, 16)})},
	{"pull of globs", "Pull", access.Read, false, one(&registryv1.PullRequest{Tenants: []string{"acme", "a*"}, Nonce: bytes.Repeat([]byte{1}, 16)})},
	{"sync", "Sync", access.Read, false, one(&registryv1.SyncRequest{})},
}

// who are the callers: a token for each.
var who = map[string]string{
	"root":             `{roles: [admin], tenants: ["*"]}`,
	"everybody-reads":  `{roles: [read], tenants: ["*"]}`,
	"acme-read":        `{roles: [read], tenants: [acme]}`,
	"acme-publish":     `{roles: [publish], tenants: [acme]}`,
	"acme-release":     `{roles: [release], tenants: [acme]}`,
	"acme-admin":       `{roles: [admin], tenants: [acme]}`,
	"other-everything": `{roles: [read, publish, release, admin], tenants: [other, acme2, "*x"]}`,
}

func tokenOf(name string) string { return "the token of " + name + ", which is long" }

func everyone(t *testing.T) func() *access.Policy {
	t.Helper()
	var text strings.Builder
	text.WriteString("subjects:\n")
	for name, grant := range who {
		fmt.Fprintf(&text, "  - {name: %s, tokens: [%s], grants: [%s]}\n", name, digestOf(tokenOf(name)), grant)
	}
	return policy(t, text.String())
}

// prepare makes what is asked about.
func prepare(t *testing.T, conn *grpc.ClientConn) (s setup) {
	t.Helper()
	client := registryv1.NewRegistryClient(conn)
	publish := func(name, source, owner string, pin uint64) *registryv1.PublishResponse {
		resp, err := client.Publish(t.Context(), &registryv1.PublishRequest{
			Tenant: "acme", Name: name, Source: []byte(source), Author: secret, Note: secret, Owner: owner, Pin: &pin,
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	publish(secret, "one "+secret, "", 0)
	s.digest = publish(secret, "two "+secret, "", 0).GetVersion().GetDigest()
	publish("owned", "of another "+secret, "cr/"+secret, 0)
	publish("pinned", "pinned "+secret, "", 1)
	publish("pinned", "not this "+secret, "", 1)
	publish("held", "one "+secret, "", 0)
	publish("held", "two "+secret, "", 0)
	if _, err := client.Pin(t.Context(), &registryv1.PinRequest{Tenant: "acme", Name: "held", Version: 1, Author: secret, Note: secret}); err != nil {
		t.Fatal(err)
	}
	publish("tried", "live "+secret, "", 0)
	trial := &scriptv1.Settings{Tests: []*scriptv1.Test{{Name: secret}}}
	if _, err := client.Publish(t.Context(), &registryv1.PublishRequest{
		Tenant: "acme", Name: "tried", Source: []byte("candidate " + secret), Author: secret, Settings: trial,
	}); err != nil {
		t.Fatal(err)
	}
	value, err := client.PutValue(t.Context(), &registryv1.PutValueRequest{Tenant: "acme", Key: secret, Content: []byte("content " + secret), Author: secret})
	if err != nil {
		t.Fatal(err)
	}
	s.content = value.GetValue().GetDigest()
	if _, err := client.PublishChangeSet(t.Context(), &registryv1.PublishChangeSetRequest{
		Tenant: "acme", Name: secret, Author: secret, Note: secret,
		Scripts: []*registryv1.PublishRequest{{Name: "member", Source: []byte("member " + secret), Settings: trial}},
	}); err != nil {
		t.Fatal(err)
	}
	settings := &scriptv1.TenantSettings{Concurrency: 7}
	if _, err := client.SetTenant(t.Context(), &registryv1.SetTenantRequest{Tenant: "acme", Settings: settings, Author: secret}); err != nil {
		t.Fatal(err)
	}
	export, err := client.Export(t.Context(), &registryv1.ExportRequest{})
	for _, item := range received(t, export, err) {
		if record := item.GetScript(); record != nil {
			s.exported = append(s.exported, &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Script{Script: record}})
		}
		if source := item.GetSource(); source != nil {
			s.exported = append(s.exported, &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Source{Source: source}})
		}
	}
	return s
}

// call makes one call and returns all that came of it, as bytes.
func call(t *testing.T, conn *grpc.ClientConn, method protoreflect.MethodDescriptor, requests []proto.Message) ([]byte, error) {
	t.Helper()
	name := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
	if err != nil {
		return nil, err
	}
	for _, m := range requests {
		if err := stream.SendMsg(m); err != nil {
			break // RecvMsg has the reason
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var all []byte
	for {
		resp := dynamicpb.NewMessage(method.Output())
		if err := stream.RecvMsg(resp); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		data, err := proto.Marshal(resp)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
		if strings.HasPrefix(string(method.Name()), "Watch") {
			return all, nil // it would go on for ever
		}
	}
}

// methods returns all methods of the registry's services.
func methods() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	services := registryv1.File_proto_registry_v1_registry_proto.Services()
	for i := range services.Len() {
		for j := range services.Get(i).Methods().Len() {
			m := services.Get(i).Methods().Get(j)
			all[string(m.Name())] = m
		}
	}
	return all
}

// TestEveryMethodAsksForARole: a new method needs a line here with the role that it asks for.
func TestEveryMethodAsksForARole(t *testing.T) {
	all := methods()
	for name := range all {
		if !slices.ContainsFunc(append(asked, askedOfAll...), func(a ask) bool { return a.method == name }) {
			t.Errorf("no line says which role %s asks for", name)
		}
	}
	anyones := policy(t, "subjects: [{name: a, tokens: ["+digestOf(tokenOf("a"))+"], grants: [{roles: [read], tenants: [elsewhere]}]}]")
	g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: anyones})
	stranger := g.dial(t, insecure.NewCredentials())
	for name, m := range all {
		if _, err := call(t, stranger, m, []proto.Message{dynamicpb.NewMessage(m.Input())}); script.KindOf(wire.FromStatus(err)) != script.Denied {
			t.Errorf("%s of a stranger: %v, want Denied", name, err)
		}
	}
}

// allowed says what each caller may.
func allowed(caller string, a ask, all bool) bool {
	switch caller {
	case "root":
		return true
	case "everybody-reads":
		return a.needs == access.Read
	}
	if all {
		return false
	}
	switch caller {
	case "acme-admin":
		return true
	case "acme-publish":
		return a.needs == access.Publish || a.needs == access.Read
	case "acme-release":
		return a.needs == access.Release || a.needs == access.Read
	}
	return caller == "acme-read" && a.needs == access.Read
}

func TestRolesDecide(t *testing.T) {
	known, all := everyone(t), methods()
	for i, a := range append(slices.Clone(asked), askedOfAll...) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for caller := range who {
				g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: known})
				s := prepare(t, g.dial(t, insecure.NewCredentials(), withToken(tokenOf("root"))))
				conn := g.dial(t, insecure.NewCredentials(), withToken(tokenOf(caller)))
				got, err := call(t, conn, all[a.method], a.requests(s))
				err = wire.FromStatus(err)
				may := allowed(caller, a, i >= len(asked))
				switch {
				case may || a.everyone:
					noCandidate := a.method == "ShadowDiff" && script.KindOf(err) == script.NotFound
					noAgent := a.method == "Try" && script.KindOf(err) == script.Unavailable
					if err != nil && !noCandidate && !noAgent {
						t.Errorf("%s: %v", caller, err)
					}
				case script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), caller+" has no role"):
					t.Errorf("%s: %v, want Denied", caller, err)
				}
				if !may && (bytes.Contains(got, []byte(secret)) || strings.Contains(fmt.Sprint(err), secret) && !strings.Contains(fmt.Sprint(err), "belongs to")) {
					t.Errorf("%s: learns what is not its own: %q, %v", caller, got, err)
				}
			}
		})
	}
}
