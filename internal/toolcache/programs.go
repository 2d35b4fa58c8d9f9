package toolcache

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// toolsModule pins the tools that need nothing but `go build`.
const toolsModule = "tools"

// tools are the packages of the tools' module, by the name of their program.
var tools = map[string]string{
	"buf":                "github.com/bufbuild/buf/cmd/buf",
	"controller-gen":     "sigs.k8s.io/controller-tools/cmd/controller-gen",
	"etcdctl":            "go.etcd.io/etcd/etcdctl/v3",
	"etcdutl":            "go.etcd.io/etcd/etcdutl/v3",
	"golangci-lint":      "github.com/golangci/golangci-lint/v2/cmd/golangci-lint",
	"helm":               "helm.sh/helm/v4/cmd/helm",
	"protoc-gen-go":      "google.golang.org/protobuf/cmd/protoc-gen-go",
	"protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
	"vale":               "github.com/vale-cli/vale/v3/cmd/vale",
}

// servers are programs of modules that the main module requires too: built there, they
// have the same version and the same compiled packages.
var servers = map[string]string{
	"etcd":        "go.etcd.io/etcd/server/v3",
	"nats-server": "github.com/nats-io/nats-server/v2",
}

// prometheus is the server, and promtool checks rules. They have a module of their own, so that a new
// version of them builds no other tool again.
const (
	prometheus = "prometheus"
	promtool   = "promtool"
)

// These have a module and a main package of their own: an OCI registry, and an OpenID Connect provider.
const (
	distribution = "distribution"
	oidcProvider = "oidcprovider"
)

// apiServer is the program with the API server and kubectl in it.
const apiServer = "kube-apiserver"

// Names returns the names of all programs, the slowest build first.
func Names() []string {
	names := slices.Collect(maps.Keys(tools))
	names = slices.AppendSeq(names, maps.Keys(servers))
	slices.Sort(names)
	return append([]string{apiServer, prometheus, promtool, distribution, oidcProvider}, names...)
}

// lookUp returns the program with the name.
func lookUp(root, name string) (program, error) {
	if name == apiServer {
		return kubeAPIServer(root)
	}
	if name == prometheus || name == promtool {
		return ofPrometheus(root, name)
	}
	if name == distribution || name == oidcProvider {
		return ofOwnModule(root, name)
	}
	if pkg, ok := servers[name]; ok {
		version, err := required(root, pkg)
		return program{name: name, dir: root, pkg: pkg, inputs: version, flags: []string{"-ldflags", "-s -w"}}, err
	}
	pkg, ok := tools[name]
	if !ok {
		return program{}, fmt.Errorf("there is no program %q; there are: %s", name, strings.Join(Names(), ", "))
	}
	dir := filepath.Join(root, toolsModule)
	inputs, err := contents(filepath.Join(dir, "go.*"))
	return program{
		name: name, dir: dir, pkg: pkg, inputs: inputs, flags: []string{"-ldflags", "-s -w"}, cgo: name == "vale", // it has parsers in C
	}, err
}

// kubeAPIServer is the program of operator/testenv/kube. As in a release of Kubernetes,
// the linker sets its version.
func kubeAPIServer(root string) (program, error) {
	dir := filepath.Join(root, "operator", "testenv", "kube")
	version, err := required(dir, "k8s.io/kubernetes")
	if err != nil {
		return program{}, err
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	ldflags := "-s -w"
	for _, set := range []string{"gitVersion=" + version, "gitMajor=" + major, "gitMinor=" + minor, "gitTreeState=clean"} {
		ldflags += " -X k8s.io/component-base/version." + set
	}
	inputs, err := contents(filepath.Join(dir, "*.*"))
	return program{
		name: apiServer, dir: dir, pkg: ".", inputs: inputs, flags: []string{"-ldflags", ldflags}, links: []string{"kubectl"},
		notice: " " + version + ": this takes about 5 minutes, once",
	}, err
}

// ofPrometheus is a program of Prometheus without what finds targets in clouds: tests name them.
func ofPrometheus(root, name string) (program, error) {
	dir := filepath.Join(root, toolsModule, prometheus)
	inputs, err := contents(filepath.Join(dir, "go.*"))
	return program{
		name: name, dir: dir, pkg: "github.com/prometheus/prometheus/cmd/" + name, inputs: inputs,
		flags:  []string{"-ldflags", "-s -w", "-tags", "remove_all_sd"},
		notice: ": this takes some minutes, once",
	}, err
}

// ofOwnModule is a program of tools/NAME: of the OCI registry, one without the stores of clouds.
func ofOwnModule(root, name string) (program, error) {
	dir := filepath.Join(root, toolsModule, name)
	inputs, err := contents(filepath.Join(dir, "*.*"))
	return program{name: name, dir: dir, pkg: ".", inputs: inputs, flags: []string{"-ldflags", "-s -w"}}, err
}

// contents returns the names and contents of the files that a pattern matches.
func contents(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "%s %d\n%s", filepath.Base(file), len(text), text)
	}
	return all.String(), nil
}

// required returns the version of a module that the module in dir requires.
func required(dir, path string) (string, error) {
	file := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == path {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", file, path)
}
