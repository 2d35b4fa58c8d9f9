package rpc_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestValues(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	// A value of the largest size there and back, by a client with gRPC's own bounds.
	large := bytes.Repeat([]byte{0, 0xff}, script.MaxValueBytes/2)
	digest := script.DigestOf(large)
	put, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "a/large", Content: large, Author: "ann"})
	if v := put.GetValue(); err != nil || !put.GetChanged() || v.GetTenant() != "acme" || v.GetKey() != "a/large" || v.GetSize() != int64(len(large)) ||
		!bytes.Equal(v.GetDigest(), digest[:]) || v.GetRevision() == 0 || v.GetAuthor() != "ann" || v.GetChangedAt() == nil {
		t.Fatalf("PutValue: %v, %v", put, err)
	}
	got, err := b.GetValue(ctx, &registryv1.GetValueRequest{Tenant: "acme", Key: "a/large"})
	if err != nil || !proto.Equal(got.GetValue(), put.GetValue()) || !bytes.Equal(got.GetContent(), large) {
		t.Errorf("GetValue: %v, %v", got.GetValue(), err)
	}
	again, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "a/large", Content: large, Author: "bo"})
	if err != nil || again.GetChanged() || !proto.Equal(again.GetValue(), put.GetValue()) {
		t.Errorf("PutValue again: %v, %v", again, err)
	}
	if empty, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "a/empty", Author: "ann"}); err != nil || !empty.GetChanged() {
		t.Errorf("an empty value: %v, %v", empty, err)
	}
	gone, err := b.DeleteValue(ctx, &registryv1.DeleteValueRequest{Tenant: "acme", Key: "a/large", Author: "ann", ExpectedRevision: put.GetValue().GetRevision()})
	if err != nil || !gone.GetValue().GetDeleted() || gone.GetValue().GetRevision() <= put.GetValue().GetRevision() {
		t.Errorf("DeleteValue: %v, %v", gone, err)
	}
	if _, err := b.GetValue(ctx, &registryv1.GetValueRequest{Tenant: "acme", Key: "a/large"}); status.Code(err) != codes.NotFound || detail(t, err).GetField() != "key" {
		t.Errorf("GetValue of what is gone: %v", err)
	}
}

func TestValueVersions(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for _, content := range []string{"one", "two"} {
		if _, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "k", Content: []byte(content), Author: "ann", Note: "it is " + content}); err != nil {
			t.Fatal(err)
		}
	}
	one, err := b.GetValue(ctx, &registryv1.GetValueRequest{Tenant: "acme", Key: "k", Version: 1})
	if err != nil || one.GetValue().GetVersion() != 1 || string(one.GetContent()) != "one" {
		t.Errorf("version 1: %v, %v", one, err)
	}
	_, err = b.RollbackValue(ctx, &registryv1.RollbackValueRequest{Tenant: "acme", Key: "k", Version: 7, Author: "ann"})
	if status.Code(err) != codes.NotFound || detail(t, err).GetMessage() != "acme/k has no version 7; it keeps versions 1 to 2" {
		t.Errorf("a rollback to no version: %v", err)
	}
	back, err := b.RollbackValue(ctx, &registryv1.RollbackValueRequest{Tenant: "acme", Key: "k", Author: "eve", Note: "why"})
	if err != nil || !back.GetChanged() || back.GetValue().GetVersion() != 1 {
		t.Errorf("a rollback: %v, %v", back, err)
	}
	if _, err := b.DeleteValue(ctx, &registryv1.DeleteValueRequest{Tenant: "acme", Key: "k", Author: "eve", Note: "over"}); err != nil {
		t.Fatal(err)
	}
	got, err := b.GetValueHistory(ctx, &registryv1.GetValueHistoryRequest{Tenant: "acme", Key: "k"})
	var lines []string
	for _, l := range got.GetHistory().GetLines() {
		lines = append(lines, fmt.Sprint(l.GetChange(), " ", l.GetVersion(), " ", l.GetAuthor(), ": ", l.GetNote()))
	}
	if err != nil || got.GetHistory().GetLatest() != 2 || fmt.Sprint(lines) != "[delete 0 eve: over rollback 1 eve: why put 2 ann: it is two put 1 ann: it is one]" {
		t.Errorf("the history: %q of %v, %v", lines, got, err)
	}
	if _, err := b.GetValueHistory(ctx, &registryv1.GetValueHistoryRequest{Tenant: "acme", Key: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("the history of nothing: %v", err)
	}
}

func TestValuePages(t *testing.T) {
	b := newBench(t)
	const keys = 7
	for i := range keys {
		for _, prefix := range []string{"k", "other"} {
			req := &registryv1.PutValueRequest{Tenant: "acme", Key: fmt.Sprint(prefix, i), Content: []byte("1234"), Author: "ann"}
			if _, err := b.PutValue(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, size := range []int32{0, 1, 3, keys, keys + 1, 5000} {
		var all []string
		req := &registryv1.ListValuesRequest{Tenant: "acme", Prefix: "k", PageSize: size}
		for pages := 1; ; pages++ {
			resp, err := b.ListValues(t.Context(), req)
			if err != nil || resp.GetUsedBytes() != 2*keys*4 || resp.GetQuotaBytes() != 16<<20 || size > 0 && len(resp.GetValues()) > int(size) {
				t.Fatalf("size %d: %v, %v", size, resp, err)
			}
			for _, v := range resp.GetValues() {
				all = append(all, v.GetKey())
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				break
			}
			if pages > keys {
				t.Fatalf("size %d: the pages do not end", size)
			}
		}
		if fmt.Sprint(all) != "[k0 k1 k2 k3 k4 k5 k6]" {
			t.Errorf("size %d: %v", size, all)
		}
	}
	if resp, err := b.ListValues(t.Context(), &registryv1.ListValuesRequest{Tenant: "nobody"}); err != nil || len(resp.GetValues()) != 0 || resp.GetQuotaBytes() == 0 {
		t.Errorf("a tenant without values: %v, %v", resp, err)
	}
}

func TestTenants(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	none, err := b.GetTenant(ctx, &registryv1.GetTenantRequest{Tenant: "acme"})
	if err != nil || none.GetTenant().GetName() != "acme" || none.GetTenant().GetRevision() != 0 {
		t.Errorf("before anything is set: %v, %v", none, err)
	}
	settings := &scriptv1.TenantSettings{
		Isolation: "process", Concurrency: 4, Cpu: 500, LogBytes: 1000, MemoryBytes: 128 << 20, ValueBytes: 2000,
		Limits: &scriptv1.Limits{Instructions: 10, Timeout: durationpb.New(1e6)},
	}
	set, err := b.SetTenant(ctx, &registryv1.SetTenantRequest{Tenant: "acme", Settings: settings, Author: "ann"})
	if err != nil || !set.GetChanged() || !proto.Equal(set.GetTenant().GetSettings(), settings) || set.GetTenant().GetRevision() == 0 {
		t.Fatalf("SetTenant: %v, %v", set, err)
	}
	got, err := b.GetTenant(ctx, &registryv1.GetTenantRequest{Tenant: "acme"})
	if err != nil || !proto.Equal(got.GetTenant(), set.GetTenant()) {
		t.Errorf("GetTenant: %v, %v, want %v", got, err, set)
	}
	if again, err := b.SetTenant(ctx, &registryv1.SetTenantRequest{Tenant: "acme", Settings: settings, Author: "ann"}); err != nil || again.GetChanged() {
		t.Errorf("SetTenant again: %v, %v", again, err)
	}
	// The quota counts at once.
	_, err = b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "k", Content: make([]byte, 2001), Author: "ann"})
	if status.Code(err) != codes.ResourceExhausted || detail(t, err).GetField() != "content" {
		t.Errorf("above the quota: %v", err)
	}
	for _, tenant := range []string{"b", "c", "d"} {
		if _, err := b.SetTenant(ctx, &registryv1.SetTenantRequest{Tenant: tenant, Settings: &scriptv1.TenantSettings{Cpu: 1}, Author: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	if unset, err := b.SetTenant(ctx, &registryv1.SetTenantRequest{Tenant: "c", Author: "ann"}); err != nil || !unset.GetChanged() {
		t.Errorf("taking settings away: %v, %v", unset, err)
	}
	var all []string
	for token := ""; ; {
		resp, err := b.ListTenants(ctx, &registryv1.ListTenantsRequest{PageSize: 2, PageToken: token})
		if err != nil || len(resp.GetTenants()) > 2 {
			t.Fatalf("ListTenants: %v, %v", resp, err)
		}
		for _, m := range resp.GetTenants() {
			all = append(all, m.GetName())
		}
		if token = resp.GetNextPageToken(); token == "" {
			break
		}
	}
	if fmt.Sprint(all) != "[acme b d]" {
		t.Errorf("ListTenants: %v", all)
	}
}

// TestDataErrors: what is wrong with a request is said with its field.
func TestDataErrors(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	put, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "k", Content: []byte("x"), Author: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	wrong := put.GetValue().GetRevision() + 1
	for name, test := range map[string]struct {
		ask   func() error
		code  codes.Code
		field string
	}{
		"key": {func() error {
			_, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "../k", Author: "ann"})
			return err
		}, codes.InvalidArgument, "key"},
		"no tenant": {func() error { _, err := b.GetValue(ctx, &registryv1.GetValueRequest{Key: "k"}); return err }, codes.InvalidArgument, "tenant"},
		"no author": {func() error {
			_, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "k"})
			return err
		}, codes.InvalidArgument, "author"},
		"delete nobody": {func() error {
			_, err := b.DeleteValue(ctx, &registryv1.DeleteValueRequest{Tenant: "acme", Key: "k"})
			return err
		}, codes.InvalidArgument, "author"},
		"large": {func() error {
			_, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "k", Content: make([]byte, script.MaxValueBytes+1), Author: "ann"})
			return err
		}, codes.InvalidArgument, "content"},
		"put conflict": {func() error {
			_, err := b.PutValue(ctx, &registryv1.PutValueRequest{Tenant: "acme", Key: "k", Author: "ann", ExpectedRevision: wrong})
			return err
		}, codes.FailedPrecondition, "expected_revision"},
		"delete conflict": {func() error {
			_, err := b.DeleteValue(ctx, &registryv1.DeleteValueRequest{Tenant: "acme", Key: "k", Author: "ann", ExpectedRevision: wrong})
			return err
		}, codes.FailedPrecondition, "expected_revision"},
		"delete nothing": {func() error {
			_, err := b.DeleteValue(ctx, &registryv1.DeleteValueRequest{Tenant: "acme", Key: "none", Author: "ann"})
			return err
		}, codes.NotFound, "key"},
		"page size": {func() error {
			_, err := b.ListValues(ctx, &registryv1.ListValuesRequest{Tenant: "acme", PageSize: -1})
			return err
		}, codes.InvalidArgument, "page_size"},
		"page token": {func() error {
			_, err := b.ListValues(ctx, &registryv1.ListValuesRequest{Tenant: "acme", PageToken: "a b"})
			return err
		}, codes.InvalidArgument, "page_token"},
		"prefix": {func() error {
			_, err := b.ListValues(ctx, &registryv1.ListValuesRequest{Tenant: "acme", Prefix: string(make([]byte, 1000))})
			return err
		}, codes.InvalidArgument, "prefix"},
		"no list": {func() error { _, err := b.ListValues(ctx, &registryv1.ListValuesRequest{}); return err }, codes.InvalidArgument, "tenant"},
		"isolation": {func() error {
			_, err := b.SetTenant(ctx, &registryv1.SetTenantRequest{Tenant: "acme", Settings: &scriptv1.TenantSettings{Isolation: "none"}, Author: "ann"})
			return err
		}, codes.InvalidArgument, "settings.isolation"},
		"timeout": {func() error {
			limits := &scriptv1.Limits{Timeout: &durationpb.Duration{Seconds: 1, Nanos: -1}}
			_, err := b.SetTenant(ctx, &registryv1.SetTenantRequest{Tenant: "acme", Settings: &scriptv1.TenantSettings{Limits: limits}, Author: "ann"})
			return err
		}, codes.InvalidArgument, "settings.limits.timeout"},
		"tenant conflict": {func() error {
			_, err := b.SetTenant(ctx, &registryv1.SetTenantRequest{Tenant: "acme", Author: "ann", ExpectedRevision: wrong})
			return err
		}, codes.FailedPrecondition, "expected_revision"},
		"tenant":      {func() error { _, err := b.GetTenant(ctx, &registryv1.GetTenantRequest{Tenant: "A"}); return err }, codes.InvalidArgument, "tenant"},
		"tenant page": {func() error { _, err := b.ListTenants(ctx, &registryv1.ListTenantsRequest{PageToken: "A"}); return err }, codes.InvalidArgument, "page_token"},
		"tenant size": {func() error { _, err := b.ListTenants(ctx, &registryv1.ListTenantsRequest{PageSize: -1}); return err }, codes.InvalidArgument, "page_size"},
	} {
		err := test.ask()
		if e := detail(t, err); status.Code(err) != test.code || e.GetField() != test.field || e.GetMessage() == "" {
			t.Errorf("%s: %v, want %v at %q", name, err, test.code, test.field)
		}
	}
}
