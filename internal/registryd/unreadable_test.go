package registryd_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"

	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
)

// lines is a log that is written and read at once.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// TestUnreadableRecordsShow: in /readyz, which stays ready and names no script, in the metrics,
// and as one line of the log for each record, also while other things go on.
func TestUnreadableRecordsShow(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	log := &lines{}
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	d, c := start(t, cfg)
	c.publish(t, "route", "return 1")
	e := etcdtest.Client(t, etcd.Endpoint())
	for _, key := range []string{"/releases/acme/route", "/values/acme/flag", "/tenants/acme"} {
		if _, err := e.Put(t.Context(), cfg.EtcdPrefix+key, "garbage"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "degraded", func() bool {
		code, body := admin(t, d, "/readyz")
		return code == 200 && strings.Contains(body, "3 records in etcd cannot be read") && !strings.Contains(body, "route")
	})
	for _, kind := range []string{"releases", "values", "tenants"} {
		if _, body := admin(t, d, "/metrics"); !strings.Contains(body, `scriptorium_registry_unreadable_records{kind="`+kind+`"} 1`) {
			t.Errorf("the metrics do not count the %s", kind)
		}
	}
	if _, err := c.SetTenant(t.Context(), &registryv1.SetTenantRequest{Tenant: "acme", Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	c.publish(t, "other", "return 1")
	for _, record := range []string{"releases/acme/route", "values/acme/flag", "tenants/acme"} {
		if got := log.count("level=ERROR"); got != 3 || log.count("cannot be read; what was there before stays live: run scriptctl doctor\" record="+record+" ") != 1 {
			t.Errorf("%s is not in one line of the log, or there are other errors: %d", record, got)
		}
	}
	eventually(t, "the settings can be read again", func() bool {
		_, body := admin(t, d, "/readyz")
		return strings.Contains(body, "2 records") && log.count("a record can be read again") == 1
	})
}
