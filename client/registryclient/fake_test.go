package registryclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fakeRegistry keeps scripts in memory, without rules, and fails when a test asks for
// that. It makes writes once, as a registry does.
type fakeRegistry struct {
	registryv1.UnimplementedRegistryServer

	mu       sync.Mutex
	releases []*script.Release
	revision script.Revision
	failures int            // so many calls yet fail as Unavailable
	lost     int            // so many answers yet are lost: the call was made, and fails as Unavailable
	block    chan struct{}  // if not nil, calls wait for it
	calls    map[string]int // by method
	last     any            // the last request
	answers  map[string]any // by request id
	audit    []*scriptv1.AuditEntry
	exported []*registryv1.ExportResponse
	imported []*registryv1.ImportRequest
	refuse   error // what Import ends in, after the options
}

// serve serves f on a socket and returns its target. It is a separate function
// from the tests' so that the examples can use it.
func serve(dir string, f *fakeRegistry) (target string, stop func()) {
	path := filepath.Join(dir, "registry.sock")
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(f.intercept))
	registryv1.RegisterRegistryServer(server, f)
	go server.Serve(ln)
	return "unix:" + path, server.Stop
}

func serveTest(t *testing.T, f *fakeRegistry) string {
	t.Helper()
	target, stop := serve(t.TempDir(), f)
	t.Cleanup(stop)
	return target
}

func (f *fakeRegistry) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if f.block != nil {
		select {
		case <-f.block:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = make(map[string]int)
	}
	f.calls[filepath.Base(info.FullMethod)]++
	f.last = req
	if f.failures > 0 {
		f.failures--
		return nil, status.Error(codes.Unavailable, "told to fail")
	}
	resp, err := f.once(ctx, req, handle)
	if f.lost > 0 {
		f.lost--
		return nil, status.Error(codes.Unavailable, "the answer is lost")
	}
	return resp, wire.ToStatus(err)
}

// once makes a request that names itself one time alone.
func (f *fakeRegistry) once(ctx context.Context, req any, handle grpc.UnaryHandler) (any, error) {
	named, ok := req.(interface{ GetRequestId() string })
	if !ok || named.GetRequestId() == "" {
		return handle(ctx, req)
	}
	if n := len(named.GetRequestId()); n < 16 || n > 64 {
		return nil, script.Errorf(script.Invalid, "request_id", "has %d bytes", n)
	}
	if resp, ok := f.answers[named.GetRequestId()]; ok {
		return resp, nil
	}
	resp, err := handle(ctx, req)
	if err == nil {
		if f.answers == nil {
			f.answers = make(map[string]any)
		}
		f.answers[named.GetRequestId()] = resp
	}
	return resp, err
}

func (f *fakeRegistry) find(tenant, name string) (*script.Release, error) {
	for _, r := range f.releases {
		if r.Name.Tenant == tenant && r.Name.Script == name {
			return r, nil
		}
	}
	return nil, script.Errorf(script.NotFound, "name", "there is no script %s/%s", tenant, name)
}

func (f *fakeRegistry) Publish(_ context.Context, m *registryv1.PublishRequest) (*registryv1.PublishResponse, error) {
	if string(m.GetSource()) == "broken" {
		return nil, &script.Error{Kind: script.Script, Field: "source", Message: "does not compile", Line: 3, Column: 7}
	}
	r, err := f.find(m.GetTenant(), m.GetName())
	if err != nil {
		r = &script.Release{Name: script.Name{Tenant: m.GetTenant(), Script: m.GetName()}, Enabled: true}
		f.releases = append(f.releases, r)
	}
	if m.GetExpectedRevision() != 0 && m.GetExpectedRevision() != int64(r.Revision) {
		return nil, script.Errorf(script.Conflict, "expected_revision", "it is %d", r.Revision)
	}
	f.revision++
	r.Revision = f.revision
	r.Latest++
	r.Active = script.Version{Number: r.Latest, Digest: script.DigestOf(m.GetSource()), Engine: "lua", Size: len(m.GetSource()), Author: m.GetAuthor()}
	r.Retained = append(r.Retained, r.Active)
	return &registryv1.PublishResponse{Release: wire.FromRelease(*r), Version: wire.FromVersion(r.Active), Changed: true}, nil
}

func (f *fakeRegistry) activate(tenant, name string, version uint64, pinned bool) (*scriptv1.Release, error) {
	r, err := f.find(tenant, name)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		version = r.Active.Number - 1
	}
	v, ok := r.Retains(version)
	if !ok {
		return nil, script.Errorf(script.NotFound, "version", "there is no version %d", version)
	}
	f.revision++
	r.Revision, r.Active, r.Pinned = f.revision, v, pinned
	return wire.FromRelease(*r), nil
}

func (f *fakeRegistry) Pin(_ context.Context, m *registryv1.PinRequest) (*registryv1.PinResponse, error) {
	r, err := f.activate(m.GetTenant(), m.GetName(), m.GetVersion(), true)
	return &registryv1.PinResponse{Release: r, Changed: true}, err
}

func (f *fakeRegistry) Rollback(_ context.Context, m *registryv1.RollbackRequest) (*registryv1.RollbackResponse, error) {
	r, err := f.activate(m.GetTenant(), m.GetName(), m.GetVersion(), true)
	return &registryv1.RollbackResponse{Release: r, Changed: true}, err
}

func (f *fakeRegistry) SetOwner(_ context.Context, m *registryv1.SetOwnerRequest) (*registryv1.SetOwnerResponse, error) {
	r, err := f.find(m.GetTenant(), m.GetName())
	if err != nil {
		return nil, err
	}
	if r.Owner != "" && r.Owner != m.GetOwner() && !m.GetForce() {
		return nil, script.Errorf(script.Denied, "owner", "the script belongs to %s", r.Owner)
	}
	f.revision++
	r.Revision, r.Owner = f.revision, m.GetNewOwner()
	return &registryv1.SetOwnerResponse{Release: wire.FromRelease(*r), Changed: true}, nil
}

// Audit answers in pages of two at most.
func (f *fakeRegistry) Audit(_ context.Context, m *registryv1.AuditRequest) (*registryv1.AuditResponse, error) {
	start := len(m.GetPageToken())
	end := min(start+min(2, int(m.GetPageSize())), len(f.audit))
	resp := &registryv1.AuditResponse{Entries: f.audit[start:end]}
	if end < len(f.audit) {
		resp.NextPageToken = string(make([]byte, end))
	}
	return resp, nil
}

func (f *fakeRegistry) Export(_ *registryv1.ExportRequest, stream grpc.ServerStreamingServer[registryv1.ExportResponse]) error {
	for _, m := range f.exported {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return wire.ToStatus(f.refuse)
}

func (f *fakeRegistry) Import(stream grpc.ClientStreamingServer[registryv1.ImportRequest, registryv1.ImportResponse]) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&registryv1.ImportResponse{Created: 1, Unchanged: 2, Replaced: 3})
		}
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.imported = append(f.imported, m)
		f.mu.Unlock()
		if f.refuse != nil {
			return wire.ToStatus(f.refuse)
		}
	}
}

func (f *fakeRegistry) Delete(_ context.Context, m *registryv1.DeleteRequest) (*registryv1.DeleteResponse, error) {
	r, err := f.find(m.GetTenant(), m.GetName())
	if err != nil {
		return nil, err
	}
	return &registryv1.DeleteResponse{Release: wire.FromRelease(script.Release{Name: r.Name, Revision: r.Revision + 1, Latest: r.Latest, Deleted: true})}, nil
}

func (f *fakeRegistry) Get(_ context.Context, m *registryv1.GetRequest) (*registryv1.GetResponse, error) {
	r, err := f.find(m.GetTenant(), m.GetName())
	if err != nil {
		return nil, err
	}
	return &registryv1.GetResponse{Release: wire.FromRelease(*r)}, nil
}

// List answers in pages of two.
func (f *fakeRegistry) List(_ context.Context, m *registryv1.ListRequest) (*registryv1.ListResponse, error) {
	start := len(m.GetPageToken())
	resp := &registryv1.ListResponse{}
	for i, r := range f.releases[start:] {
		if i == 2 {
			resp.NextPageToken = string(make([]byte, start+2))
			break
		}
		resp.Releases = append(resp.Releases, wire.FromRelease(*r))
	}
	return resp, nil
}

func (f *fakeRegistry) WatchStatus(m *registryv1.WatchStatusRequest, stream grpc.ServerStreamingServer[registryv1.WatchStatusResponse]) error {
	r := script.Release{Name: script.Name{Tenant: m.GetTenant(), Script: m.GetName()}, Deleted: true}
	for active := range int32(3) {
		st := &registryv1.FleetStatus{Scripts: []*registryv1.ScriptStatus{{
			Release: wire.FromRelease(r), Desired: 2, Active: active, Converged: active == 2, SlowestAgent: "agent-2",
		}}}
		resp := &registryv1.WatchStatusResponse{Status: st, Changes: m.GetChanges() && active > 0}
		if resp.Changes {
			resp.Gone = []string{"acme/old"}
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	return nil
}
