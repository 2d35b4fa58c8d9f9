package rpc

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/engine"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

type anyCode struct{}

func (anyCode) Name() string              { return "lua" }
func (anyCode) Check(engine.Source) error { return nil }

func encoded(f *testing.F, m proto.Message) []byte {
	f.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzImport: whatever an item says, it is refused for a reason, or stored whole, so
// that the registry can export it and its releases can travel.
func FuzzImport(f *testing.F) {
	source := []byte("return 1")
	digest := script.DigestOf(source)
	v := &scriptv1.Version{Number: 2, Digest: digest[:], Engine: "lua", Entrypoint: "handle", Size: int64(len(source))}
	for _, record := range []*registryv1.ScriptRecord{
		{Release: &scriptv1.Release{Tenant: "acme", Name: "s", Latest: 3, Deleted: true}},
		{
			Release:  &scriptv1.Release{Tenant: "acme", Name: "s", Latest: 2, Active: v, Retained: []*scriptv1.Version{v}, Enabled: true},
			Versions: []*scriptv1.Version{v},
			History:  []*scriptv1.HistoryEntry{{Change: "publish", Version: 2, Author: "ann"}},
		},
	} {
		f.Add(encoded(f, &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Script{Script: record}}))
	}
	f.Add(encoded(f, &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Value{Value: &registryv1.ValueRecord{
		Value: &scriptv1.Value{Tenant: "acme", Key: "a/b", Digest: digest[:], Size: int64(len(source))}, Content: source,
	}}}))
	f.Add(encoded(f, &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Tenant{Tenant: &scriptv1.Tenant{
		Name: "acme", Settings: &scriptv1.TenantSettings{Isolation: "process", Cpu: 500},
	}}}))
	f.Fuzz(func(t *testing.T, message []byte) {
		var m registryv1.ImportRequest
		if proto.Unmarshal(message, &m) != nil {
			return
		}
		store := memstore.New()
		r := registry.New(registry.Config{Store: store, Engines: map[string]engine.Checker{"lua": anyCode{}}})
		by := access.Everybody("unix")
		result, err := r.Import(t.Context(), registry.ImportRequest{By: by, Author: "fuzz"}, func(yield func(registry.Item, error) bool) {
			if yield(registry.Item{Source: &registry.Source{Digest: digest, Content: source}}, nil) {
				yield(toItem(&m))
			}
		})
		head, _ := store.Head(t.Context())
		if stored := result.Created + result.Values + result.Tenants; head != 0 && stored != 1 || head == 0 && err == nil {
			t.Fatalf("head %d, %+v, %v", head, result, err)
		}
		if kind := script.KindOf(err); kind != "" && kind != script.Invalid && kind != script.Limit {
			t.Fatalf("%v: is of kind %s", err, kind)
		}
		for item, err := range r.Export(t.Context(), registry.ExportRequest{By: by}) {
			if err != nil {
				t.Fatal(err)
			}
			if item.Record == nil {
				continue
			}
			if _, err := wire.ToRelease(wire.FromRelease(item.Record.Release)); err != nil {
				t.Errorf("what was stored cannot travel: %v", err)
			}
		}
	})
}
