package security_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/security"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

// TestTenantKeysAreReadAgain: a file that cannot be used changes nothing.
func TestTenantKeysAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenant-keys.yaml")
	write := func(tenant string) {
		t.Helper()
		if err := os.WriteFile(path, fmt.Appendf(nil, "publishers: [{tenants: [%s], keys: [%q]}]\n", tenant, publicKey), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("acme")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		keys, err := security.OpenTenantKeys(path, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		changes := make(chan struct{})
		go keys.Run(ctx, func() { changes <- struct{}{} })
		write("shop")
		<-changes
		if trust := keys.Roots.Trust(); !trust.Requires("shop") || trust.Requires("acme") {
			t.Error("the keys are not those of the file")
		}
		write("Not a tenant")
		<-time.After(time.Minute) // of the bubble
		synctest.Wait()
		if !strings.Contains(log.String(), "cannot be used") {
			t.Errorf("the log does not say it: %s", &log)
		}
		if !keys.Roots.Trust().Requires("shop") {
			t.Error("a file that cannot be used has replaced the keys")
		}
		cancel()
	})
}

func TestTenantKeysOfAFileThatCannotBeUsed(t *testing.T) {
	_, err := security.OpenTenantKeys(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "--tenant-keys") {
		t.Errorf("%v; want it to name --tenant-keys", err)
	}
}
