package registryclient_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// older is a registry that knows pins, and no holds.
type older struct {
	registryv1.UnimplementedRegistryServer
}

func (older) Pin(context.Context, *registryv1.PinRequest) (*registryv1.PinResponse, error) {
	return nil, wire.ToStatus(script.Errorf(script.Invalid, "version", "must name the version to pin, from 1"))
}

func (older) GetValue(context.Context, *registryv1.GetValueRequest) (*registryv1.GetValueResponse, error) {
	content := []byte("on")
	return &registryv1.GetValueResponse{Value: wire.FromValue(script.Value{Key: beta, Revision: 7, Digest: script.DigestOf(content), Size: 2}), Content: content}, nil
}

// TestVersionsOfAnOlderRegistry: the errors say what to upgrade, and nobody gets another version.
func TestVersionsOfAnOlderRegistry(t *testing.T) {
	c := dialOlder(t)
	if v, _, err := c.Value(t.Context(), beta); err != nil || v.Version != 0 {
		t.Errorf("the value: %+v, %v", v, err)
	}
	if _, _, err := c.ValueVersion(t.Context(), beta, 3); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "upgrade registryd") {
		t.Errorf("a version: %v", err)
	}
	if _, err := c.ValueHistory(t.Context(), beta); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "upgrade it") {
		t.Errorf("the history: %v", err)
	}
	if _, _, err := c.RollbackValue(t.Context(), beta, 3, byAda); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "upgrade it") {
		t.Errorf("a rollback: %v", err)
	}
}

func dialOlder(t *testing.T) *registryclient.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registry.sock")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterRegistryServer(server, older{})
	go server.Serve(ln)
	t.Cleanup(server.Stop)
	return dial(t, "unix:"+path)
}

// TestHoldsOfAnOlderRegistry: the errors say what to upgrade.
func TestHoldsOfAnOlderRegistry(t *testing.T) {
	c := dialOlder(t)
	if _, _, err := c.Pin(t.Context(), route, 0, ada); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "upgrade registryd") {
		t.Errorf("Pin: %v", err)
	}
	if _, _, err := c.LiftHold(t.Context(), route, ada); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "upgrade it") {
		t.Errorf("LiftHold: %v", err)
	}
	if _, _, err := c.Pin(t.Context(), route, 3, ada); script.KindOf(err) != script.Invalid || strings.Contains(err.Error(), "upgrade") {
		t.Errorf("Pin of a version: %v", err)
	}
}
