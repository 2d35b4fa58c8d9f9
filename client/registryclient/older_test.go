package registryclient_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

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

// TestHoldsOfAnOlderRegistry: the errors say what to upgrade.
func TestHoldsOfAnOlderRegistry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.sock")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterRegistryServer(server, older{})
	go server.Serve(ln)
	t.Cleanup(server.Stop)
	c := dial(t, "unix:"+path)
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
