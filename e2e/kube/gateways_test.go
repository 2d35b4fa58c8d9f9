package kube

import (
	"reflect"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

func TestManifestOfGateways(t *testing.T) {
	for name, test := range map[string]struct {
		gateways Gateways
		args     []string
		mounts   []string
	}{
		"calls, as they are unless it is said": {
			gateways: Gateways{Scripts: []string{"acme/a", "acme/b"}},
			args:     []string{"--protocol=grpc", "--callers=1", "--interval=2ms", "--call=acme/a", "--call=acme/b"},
			mounts:   []string{"/run/scriptorium"},
		},
		"calls by RESP": {
			gateways: Gateways{Scripts: []string{"acme/a"}, Protocol: RESP, Callers: 4, Interval: 10 * time.Millisecond},
			args:     []string{"--protocol=resp", "--callers=4", "--interval=10ms", "--call=acme/a"},
			mounts:   []string{"/run/scriptorium"},
		},
		"pages of a gateway": {
			gateways: Gateways{Scripts: []string{"acme/a"}, Protocol: HTTP, Caddyfile: "front"},
			args:     []string{"--protocol=http", "--callers=1", "--interval=2ms", "--call=acme/a", "--backend=stable=127.0.0.1:9000", "--backend=canary=127.0.0.1:9001"},
			mounts:   []string{"/run/scriptorium"},
		},
		"a file": {
			gateways: Gateways{ConfigMap: "settings"},
			args:     []string{"--protocol=grpc", "--callers=1", "--interval=2ms", "--file=/config/content"},
			mounts:   []string{"/config"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.gateways.Namespace, test.gateways.Name, test.gateways.Image = "e2e", "gateway", "mine/gateway:1"
			manifest, err := test.gateways.manifest()
			if err != nil {
				t.Fatal(err)
			}
			var set appsv1.DaemonSet
			if err := yaml.UnmarshalStrict([]byte(manifest), &set); err != nil {
				t.Fatalf("%v in\n%s", err, manifest)
			}
			container := set.Spec.Template.Spec.Containers[0]
			if container.Image != "mine/gateway:1" || !slices.Equal(container.Args, test.args) {
				t.Errorf("%s is run with %q, want %q", container.Image, container.Args, test.args)
			}
			var mounts []string
			for _, m := range container.VolumeMounts {
				mounts = append(mounts, m.MountPath)
			}
			if !slices.Equal(mounts, test.mounts) {
				t.Errorf("mounts are %q, want %q", mounts, test.mounts)
			}
		})
	}
}

// TestGatewaysMountWhatThePageSays: the tests show then that it can be done like this.
func TestGatewaysMountWhatThePageSays(t *testing.T) {
	section, err := page.ReadSection("../../docs/kubernetes.md", "Gateways")
	if err != nil {
		t.Fatal(err)
	}
	example, err := page.Find(page.Blocks(section, "yaml"), "kind: Pod\n")
	if err != nil {
		t.Fatal(err)
	}
	var shown corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(example), &shown); err != nil {
		t.Fatal(err)
	}
	manifest, err := Gateways{Namespace: "e2e", Name: "gateway", Scripts: []string{"acme/a"}}.manifest()
	if err != nil {
		t.Fatal(err)
	}
	var ours appsv1.DaemonSet
	if err := yaml.UnmarshalStrict([]byte(manifest), &ours); err != nil {
		t.Fatal(err)
	}
	got, want := ours.Spec.Template.Spec, shown.Spec
	if got, want := got.Volumes[0].HostPath, want.Volumes[0].HostPath; !reflect.DeepEqual(got, want) {
		t.Errorf("the volume is %v, and the page has %v", got, want)
	}
	mount, shows := got.Containers[0].VolumeMounts[0], want.Containers[0].VolumeMounts[0]
	if mount.Name != got.Volumes[0].Name || mount.MountPath != shows.MountPath || mount.ReadOnly != shows.ReadOnly {
		t.Errorf("the mount is %+v, and the page has %+v", mount, shows)
	}
	if got, want := got.SecurityContext.SupplementalGroups, want.SecurityContext.SupplementalGroups; !slices.Equal(got, want) {
		t.Errorf("the groups are %v, and the page has %v", got, want)
	}
}
