package security

import (
	"context"
	"log/slog"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TenantKeys keep the keys of tenants' publishers as their file says.
type TenantKeys struct {
	Roots *publisher.Roots

	path  string
	watch *tlsfiles.Watch
	log   *slog.Logger
}

// OpenTenantKeys reads the file of --tenant-keys; with "" no signatures are needed.
func OpenTenantKeys(path string, log *slog.Logger) (*TenantKeys, error) {
	k := &TenantKeys{Roots: publisher.NewRoots(nil), path: path, log: log}
	if path == "" {
		return k, nil
	}
	k.watch = tlsfiles.NewWatch(path)
	trust, err := publisher.LoadTrust(path)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--tenant-keys", "%w", err)
	}
	k.Roots.Replace(trust)
	return k, nil
}

// tenantKeysInterval is how often the file is looked at.
const tenantKeysInterval = 2 * time.Second

// Run keeps the keys as the file says, until ctx is done, and says when they have changed.
func (k *TenantKeys) Run(ctx context.Context, changed func()) {
	if k.watch == nil {
		return
	}
	k.watch.Run(ctx, tenantKeysInterval, func() {
		trust, err := publisher.LoadTrust(k.path)
		if err != nil {
			k.log.Error("the keys of tenants' publishers were replaced by what cannot be used; the old ones stay trusted", "error", err)
			return
		}
		k.Roots.Replace(trust)
		k.log.Info("the keys of tenants' publishers were read again", "file", k.path)
		changed()
	})
}
