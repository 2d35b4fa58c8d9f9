package cluster

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"
)

// away is added to the names of folders whose data etcd does not have for a while.
const away = ".away"

// WipeEtcd starts all members of etcd without their data, and waits until they serve.
func (c *Cluster) WipeEtcd(ctx context.Context) error {
	for _, e := range c.etcd {
		e.Kill()
	}
	for _, e := range c.etcd {
		if err := os.Rename(c.file(e.name), c.file(e.name)+away); err != nil {
			return err
		}
	}
	for _, e := range c.etcd {
		if err := e.Start(); err != nil {
			return err
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for c.etcdNotReady(ctx) != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// RestoreEtcd starts etcd with the data that WipeEtcd took away, if it did.
func (c *Cluster) RestoreEtcd() error {
	for _, e := range c.etcd {
		_, err := os.Stat(c.file(e.name) + away)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		e.Kill()
		if err := errors.Join(err, os.RemoveAll(c.file(e.name)), os.Rename(c.file(e.name)+away, c.file(e.name)), e.Start()); err != nil {
			return err
		}
	}
	return nil
}

// RegistryNames are the names of the registries' processes.
func (c *Cluster) RegistryNames() []string {
	var names []string
	for _, r := range c.registries {
		names = append(names, r.Name)
	}
	return names
}

// Ready reports whether the registry says that it is.
func (c *Cluster) Ready(ctx context.Context, registry string) bool {
	code, _ := c.readyz(ctx, registry)
	return code == http.StatusOK
}

// RefusesFleet reports whether the registry says that etcd does not have its fleet.
func (c *Cluster) RefusesFleet(ctx context.Context, registry string) bool {
	code, body := c.readyz(ctx, registry)
	return code == http.StatusServiceUnavailable && strings.Contains(body, "registryd init")
}

// SeesOtherKey reports whether the registry says that another one signs with another key.
func (c *Cluster) SeesOtherKey(ctx context.Context, registry string) bool {
	_, body := c.readyz(ctx, registry)
	return strings.Contains(body, "--signing-key")
}

// readyz returns what the registry says of itself; nothing, if it does not answer.
func (c *Cluster) readyz(ctx context.Context, registry string) (code int, body string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for _, r := range c.registries {
		if r.Name != registry {
			continue
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+"/readyz", http.NoBody)
		if err != nil {
			return 0, ""
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, ""
		}
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	return 0, ""
}
