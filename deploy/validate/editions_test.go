package validate_test

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEditions: etcd and NATS run here in the versions that the tests use, which build them
// from the main module.
func TestEditions(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	edition := func(module string) string {
		found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("go.mod has no %s", module)
		}
		return string(found[1])
	}
	nats := strings.Split(strings.TrimPrefix(edition("github.com/nats-io/nats-server/v2"), "v"), ".")
	want := map[string]string{
		"etcd": "quay.io/coreos/etcd:" + edition("go.etcd.io/etcd/server/v3"),
		"nats": "nats:" + nats[0] + "." + nats[1] + "-scratch", // which follows its patches
	}
	for _, way := range []rendering{{"try", overlay(kustomize + "/try")}, {"chart", template()}} {
		got := map[string]string{}
		for _, p := range pods(t, parse(t, way.make(t))) {
			for _, c := range p.spec.Containers {
				if want[c.Name] != "" {
					got[c.Name] = c.Image
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s has %v, and what was tried is %v", way.name, got, want)
		}
	}
}
