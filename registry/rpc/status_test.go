package rpc_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestStatus(t *testing.T) {
	b := newBench(t)
	revision := b.publish(t, "route", "one").GetRelease().GetRevision()
	b.hear(t, "a", revision)
	resp, err := b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	s := resp.GetStatus()
	if s.GetFleet() != b.id || s.GetHeadRevision() != revision || s.GetConnected() != 1 || len(s.GetScripts()) != 1 {
		t.Fatalf("status: %v", s)
	}
	p := s.GetScripts()[0]
	if p.GetActive() != 1 || p.GetDesired() != 1 || !p.GetConverged() || p.GetSlowestAgent() != "a" || p.GetTook() == nil || p.GetRollout().GetAgents() != 1 || p.GetRelease().GetRevision() != revision {
		t.Errorf("script: %v", p)
	}
	// A status carries nothing that grows with the script.
	if _, err := b.Publish(t.Context(), &registryv1.PublishRequest{
		Tenant: "acme", Name: "route", Source: []byte("two"), Author: "ann",
		Settings: &scriptv1.Settings{HistoryLimit: 5, Config: []byte(`{"a":1}`)},
	}); err != nil {
		t.Fatal(err)
	}
	resp, err = b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	r := resp.GetStatus().GetScripts()[0].GetRelease()
	if len(r.GetRetained()) != 1 || r.GetRetained()[0].GetNumber() != 2 || r.GetSettings().GetConfig() != nil || r.GetSettings().GetHistoryLimit() != 5 {
		t.Errorf("the release in a status: %v", r)
	}
	if _, err := wire.ToRelease(r); err != nil {
		t.Errorf("the release in a status cannot be read: %v", err)
	}
	got, err := b.Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "route"})
	if err != nil || len(got.GetRelease().GetRetained()) != 2 || len(got.GetRelease().GetSettings().GetConfig()) == 0 {
		t.Errorf("Get: %v, %v; want all of it", got, err)
	}
	// Who has published sees the status of that release, and of none before it.
	for i := range 20 {
		revision = b.publish(t, "route", fmt.Sprint(i)).GetRelease().GetRevision()
		resp, err := b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
		if err != nil || resp.GetStatus().GetScripts()[0].GetRelease().GetRevision() != revision {
			t.Fatalf("after revision %d: %v, %v", revision, resp, err)
		}
		if resp.GetStatus().GetScripts()[0].GetConverged() {
			t.Error("converged, and nobody has activated it")
		}
	}
	for _, test := range []struct {
		req  *registryv1.StatusRequest
		code codes.Code
	}{
		{&registryv1.StatusRequest{}, codes.OK},
		{&registryv1.StatusRequest{Tenant: "acme"}, codes.OK},
		{&registryv1.StatusRequest{Tenant: "nobody"}, codes.OK},
		{&registryv1.StatusRequest{Tenant: "acme", Name: "never"}, codes.NotFound},
		{&registryv1.StatusRequest{Name: "route"}, codes.InvalidArgument},
		{&registryv1.StatusRequest{Tenant: "A"}, codes.InvalidArgument},
	} {
		if _, err := b.Status(t.Context(), test.req); status.Code(err) != test.code {
			t.Errorf("%v: %v, want %v", test.req, err, test.code)
		}
	}
}

// TestStatusOfACandidate: a status has the candidate, and what agents say of it, and of the
// tests the number alone.
func TestStatusOfACandidate(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "one")
	published, err := b.Publish(t.Context(), &registryv1.PublishRequest{
		Tenant: "acme", Name: "route", Source: []byte("two"), Author: "ann", Settings: &scriptv1.Settings{
			Tests:   []*scriptv1.Test{{Name: "answers", Expect: []byte(`1`)}},
			Rollout: &scriptv1.Plan{Steps: []*scriptv1.Step{{Percent: 10}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := published.GetRelease(); !published.GetChanged() || published.GetVersion().GetNumber() != 2 || r.GetActive().GetNumber() != 1 || r.GetCandidate().GetVersion() != 2 {
		t.Errorf("published: %v", published)
	}
	b.hear(t, "a", published.GetRelease().GetRevision())
	resp, err := b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	s := resp.GetStatus().GetScripts()[0]
	if r := s.GetRelease(); len(r.GetRetained()) != 2 || r.GetCandidate().GetVersion() != 2 || len(r.GetCandidate().GetSettings().GetTests()) != 1 || proto.Size(r.GetCandidate().GetSettings().GetTests()[0]) != 0 || len(r.GetSettings().GetRollout().GetSteps()) != 1 {
		t.Errorf("the release in a status: %v", r)
	}
	if s.GetTrials() == nil || s.GetConverged() || s.GetActive() != 1 || s.GetDesired() != 1 {
		t.Errorf("the status of a candidate: %v", s)
	}
	if r, err := wire.ToRelease(s.GetRelease()); err != nil || r.CandidateState() != script.CandidateTesting {
		t.Errorf("the release in a status is read as %+v, %v", r, err)
	}
	_, err = b.Steer(t.Context(), &registryv1.SteerRequest{Tenant: "acme", Name: "route", Author: "ann", Steering: registryv1.Steering_STEERING_PROMOTE, Version: 3})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "version 2, not 3") {
		t.Errorf("promoted, and another one meant: %v", err)
	}
	steered, err := b.Steer(t.Context(), &registryv1.SteerRequest{Tenant: "acme", Name: "route", Author: "ann", Steering: registryv1.Steering_STEERING_PROMOTE, Version: 2})
	if err != nil || !steered.GetChanged() || steered.GetRelease().GetActive().GetNumber() != 2 || steered.GetRelease().GetCandidate() != nil {
		t.Errorf("promoted: %v, %v", steered, err)
	}
	for _, s := range []registryv1.Steering{0, 9} {
		if _, err := b.Steer(t.Context(), &registryv1.SteerRequest{Tenant: "acme", Name: "route", Author: "ann", Steering: s}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("steering %d: %v", s, err)
		}
	}
}

func TestWatchStatus(t *testing.T) {
	b := newBench(t)
	revision := b.publish(t, "route", "one").GetRelease().GetRevision()
	stream, err := b.WatchStatus(t.Context(), &registryv1.WatchStatusRequest{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetStatus().GetConnected() != 0 || first.GetStatus().GetScripts()[0].GetConverged() {
		t.Fatalf("first: %v, %v", first, err)
	}
	b.hear(t, "a", revision)
	next, err := stream.Recv()
	if err != nil || !next.GetStatus().GetScripts()[0].GetConverged() {
		t.Errorf("next: %v, %v; want it converged", next, err)
	}
	// Draining ends the watch, and does not wait for it.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.server.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("draining waited for a watch")
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v, want Unavailable", err)
	}
}

// TestStatusPages: a status of many scripts, and a list of many agents, come page by
// page, each once and in order.
func TestStatusPages(t *testing.T) {
	b := newBench(t)
	const scripts, agents = 25, 23
	var head int64
	for i := range scripts {
		head = b.publish(t, fmt.Sprint("s", i), "one").GetRelease().GetRevision()
	}
	for i := range agents {
		b.hear(t, fmt.Sprint("n", i), head)
	}
	for _, size := range []int32{1, 7, 25, 1000} {
		var names []string
		req := &registryv1.StatusRequest{PageSize: size}
		for pages := 0; ; pages++ {
			resp, err := b.Status(t.Context(), req)
			if err != nil || len(resp.GetStatus().GetScripts()) > int(size) || resp.GetStatus().GetConnected() != agents {
				t.Fatalf("a page of %d: %v, %v", size, resp, err)
			}
			for _, s := range resp.GetStatus().GetScripts() {
				names = append(names, s.GetRelease().GetName())
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		wantAll(t, names, scripts)
		names = nil
		list := &registryv1.ListAgentsRequest{PageSize: size}
		for {
			resp, err := b.ListAgents(t.Context(), list)
			if err != nil || len(resp.GetAgents()) > int(size) || resp.GetHeadRevision() != head || resp.GetFleet() != b.id {
				t.Fatalf("a page of %d: %v, %v", size, resp, err)
			}
			for _, a := range resp.GetAgents() {
				names = append(names, a.GetAgent())
			}
			if list.PageToken = resp.GetNextPageToken(); list.PageToken == "" {
				break
			}
		}
		wantAll(t, names, agents)
	}
	for _, size := range []int32{-1} {
		_, err := b.Status(t.Context(), &registryv1.StatusRequest{PageSize: size})
		_, listErr := b.ListAgents(t.Context(), &registryv1.ListAgentsRequest{PageSize: size})
		if status.Code(err) != codes.InvalidArgument || status.Code(listErr) != codes.InvalidArgument {
			t.Errorf("a page of %d: %v, %v", size, err, listErr)
		}
	}
}

// wantAll checks that there are as many names, each once and in order.
func wantAll(t *testing.T, names []string, want int) {
	t.Helper()
	for i := range names[1:] {
		if names[i] >= names[i+1] {
			t.Fatalf("%q comes before %q", names[i], names[i+1])
		}
	}
	if len(names) != want {
		t.Fatalf("%d came, want %d: %v", len(names), want, names)
	}
}

// TestListAgents: an agent tells of itself, and large agents make small pages.
func TestListAgents(t *testing.T) {
	b := newBench(t)
	head := b.publish(t, "route", "one").GetRelease().GetRevision()
	tenants, err := script.ParseSelector([]string{"acme", "shop-*"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.fleet.Reached(t.Context(), script.Revision(head)); err != nil {
		t.Fatal(err)
	}
	b.fleet.Heard(fleet.Report{
		Fleet: b.id, Agent: "a", Incarnation: "1", Sequence: 1, Software: "v1", Labels: map[string]string{"zone": "b"},
		Tenants: tenants, DiskKeys: []string{"0123456789abcdef"}, Drifts: 3, Activated: script.Revision(head),
		Failures: []fleet.Failure{{
			Name: script.Name{Tenant: "acme", Script: "route"}, Revision: script.Revision(head),
			Err: &script.Error{Kind: script.Script, Message: strings.Repeat("x", 5000), Line: 3},
		}},
	})
	for _, troubled := range []bool{false, true} {
		resp, err := b.ListAgents(t.Context(), &registryv1.ListAgentsRequest{Troubled: troubled})
		if err != nil || len(resp.GetAgents()) != 1 {
			t.Fatalf("%v, %v", resp, err)
		}
		a := resp.GetAgents()[0]
		if a.GetSoftware() != "v1" || a.GetLabels()["zone"] != "b" || a.GetTenants()[1] != "shop-*" || a.GetDrifts() != 3 ||
			a.GetDiskKeys()[0] != "0123456789abcdef" || a.GetBehind() != 0 || a.GetFailed() != 1 || a.GetFailures()[0].GetError().GetLine() != 3 {
			t.Errorf("agent: %v", a)
		}
		if n := len(a.GetFailures()[0].GetError().GetMessage()); n > 1100 {
			t.Errorf("a reason of %d bytes", n)
		}
	}
	large := map[string]string{}
	for i := range 64 {
		large[fmt.Sprint(i, strings.Repeat("k", 1000))] = strings.Repeat("v", 1000)
	}
	for i := range 100 {
		b.fleet.Heard(fleet.Report{Fleet: b.id, Agent: fmt.Sprintf("large-%02d", i), Incarnation: "1", Sequence: 1, Labels: large})
	}
	var names []string
	for req := (&registryv1.ListAgentsRequest{PageSize: 1000}); ; {
		resp, err := b.ListAgents(t.Context(), req) // the client takes 4 MiB and no more
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range resp.GetAgents() {
			names = append(names, a.GetAgent())
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	wantAll(t, names, 101)
}

// TestStatusIsForReaders: a reader of some tenants sees the status of these, and a
// reader of all tenants sees the agents.
func TestStatusIsForReaders(t *testing.T) {
	token := func(name string) string { return strings.Repeat(name, 10) }
	var policy strings.Builder
	policy.WriteString("subjects:\n")
	for name, tenants := range map[string]string{"every": "'*'", "acme": "acme", "nobody": "other"} {
		fmt.Fprintf(&policy, "  - {name: %s, tokens: ['sha256:%x'], grants: [{roles: [read], tenants: [%s]}]}\n", name, sha256.Sum256([]byte(token(name))), tenants)
	}
	parsed, err := access.Parse("policy", []byte(policy.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New()
	writer := newBenchFor(t, store, rpc.Authentication{InsecureAnonymous: true})
	writer.publish(t, "route", "one")
	if _, err := writer.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "shop", Name: "cart", Source: []byte("x"), Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	b := newBenchFor(t, store, rpc.Authentication{Policy: func() *access.Policy { return parsed }, InsecureTokens: true})
	for _, test := range []struct {
		who, tenant string
		scripts     int
		code        codes.Code
		agents      codes.Code
	}{
		{"every", "", 2, codes.OK, codes.OK},
		{"every", "shop", 1, codes.OK, codes.OK},
		{"acme", "", 1, codes.OK, codes.PermissionDenied},
		{"acme", "acme", 1, codes.OK, codes.PermissionDenied},
		{"acme", "shop", 0, codes.PermissionDenied, codes.PermissionDenied},
		{"nobody", "", 0, codes.OK, codes.PermissionDenied},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token(test.who))
		resp, err := b.Status(ctx, &registryv1.StatusRequest{Tenant: test.tenant})
		if status.Code(err) != test.code || len(resp.GetStatus().GetScripts()) != test.scripts {
			t.Errorf("%s of %q: %v, %v", test.who, test.tenant, resp, err)
		}
		stream, err := b.WatchStatus(ctx, &registryv1.WatchStatusRequest{Tenant: test.tenant})
		if err != nil {
			t.Fatal(err)
		}
		if first, err := stream.Recv(); status.Code(err) != test.code || len(first.GetStatus().GetScripts()) != test.scripts {
			t.Errorf("%s watches %q: %v, %v", test.who, test.tenant, first, err)
		}
		if _, err := b.ListAgents(ctx, &registryv1.ListAgentsRequest{}); status.Code(err) != test.agents {
			t.Errorf("%s lists agents: %v", test.who, err)
		}
	}
}

// TestStatusOfManyPlans: the statuses of many scripts say what step a candidate is in, and are small,
// whatever selectors its plan has. The status of one script has all of them.
func TestStatusOfManyPlans(t *testing.T) {
	b := newBench(t)
	plan, labels := &scriptv1.Plan{}, func(value string) map[string]string {
		m := map[string]string{"zone": value}
		for i := range script.MaxSelectorLabels - 1 {
			m[strings.Repeat("n", 60)+fmt.Sprint(i)] = strings.Repeat("v", script.MaxAgentLabelLen)
		}
		return m
	}
	for i := range script.MaxSteps {
		plan.Steps = append(plan.Steps, &scriptv1.Step{Selector: labels(fmt.Sprint("z", i))})
	}
	const scripts = 20
	for i := range scripts {
		name := fmt.Sprint("s", i)
		b.publish(t, name, "one")
		if _, err := b.Publish(t.Context(), &registryv1.PublishRequest{
			Tenant: "acme", Name: name, Source: []byte("two"), Author: "ann", Settings: &scriptv1.Settings{Rollout: plan},
		}); err != nil {
			t.Fatal(err)
		}
	}
	look := func(name string) []*registryv1.ScriptStatus {
		t.Helper()
		resp, err := b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetStatus().GetScripts()
	}
	all := look("")
	if len(all) != scripts {
		t.Fatalf("%d statuses", len(all))
	}
	for _, s := range all {
		steps := s.GetRelease().GetSettings().GetRollout().GetSteps()
		if size := proto.Size(s); size > 4<<10 || len(steps) != script.MaxSteps || steps[0].GetSelector()["zone"] != "z0" {
			t.Errorf("the status of one of many has %d bytes, and %d steps, the first with %d labels", size, len(steps), len(steps[0].GetSelector()))
		}
	}
	for i, step := range look("s0")[0].GetRelease().GetSettings().GetRollout().GetSteps() {
		if len(step.GetSelector()) != script.MaxSelectorLabels || step.GetSelector()["zone"] != fmt.Sprint("z", i) {
			t.Errorf("the status of one script has step %d with %v", i+1, step.GetSelector())
		}
	}
}

// TestStatusOfACandidateWithOtherLimits: a status says that a candidate has tests also where it
// has as many as the active version.
func TestStatusOfACandidateWithOtherLimits(t *testing.T) {
	b := newBench(t)
	for i, source := range []string{"one", "two"} {
		_, err := b.Publish(t.Context(), &registryv1.PublishRequest{
			Tenant: "acme", Name: "route", Source: []byte(source), Author: "ann", Settings: &scriptv1.Settings{
				Limits:  &scriptv1.Limits{Instructions: uint64(1000 + i)},
				Tests:   []*scriptv1.Test{{Name: "answers", Expect: []byte(`1`)}},
				Rollout: &scriptv1.Plan{Steps: []*scriptv1.Step{{Percent: 10}}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := b.Steer(t.Context(), &registryv1.SteerRequest{Tenant: "acme", Name: "route", Author: "ann", Steering: registryv1.Steering_STEERING_PROMOTE}); err != nil {
				t.Fatal(err)
			}
		}
	}
	resp, err := b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.ToRelease(resp.GetStatus().GetScripts()[0].GetRelease())
	if err != nil || r.CandidateState() != script.CandidateTesting || len(r.Candidate.Spec.Tests) != 1 || r.Candidate.Spec.Limits.Instructions != 1001 {
		t.Errorf("the release in a status is read as %+v, %v", r, err)
	}
}
