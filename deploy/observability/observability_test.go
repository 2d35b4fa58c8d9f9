package observability_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/deploy/observability"
)

// mostOfAConfigMap fits the annotation that `kubectl apply` makes of an object.
const mostOfAConfigMap = 200 << 10

// TestFilesAreCurrent: what is shipped is what the definitions say, and nothing else.
func TestFilesAreCurrent(t *testing.T) {
	const root = "../.."
	files, err := observability.Files()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the definitions say (%v): run `make generate`", path, err)
		}
		if len(want) > mostOfAConfigMap {
			t.Errorf("%s has %d bytes; at most %d", path, len(want), mostOfAConfigMap)
		}
	}
	for _, pattern := range []string{"deploy/observability/grafana/*.json", "deploy/helm/scriptorium/files/dashboards/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			path, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			if files[path] == nil {
				t.Errorf("%s is of no dashboard: remove it", path)
			}
		}
	}
}
