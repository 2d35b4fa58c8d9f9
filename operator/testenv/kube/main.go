// Command kube is what tests of the operator need of Kubernetes, in one program: the API
// server and kubectl. The name that it is called by says which it is. Called etcd, it
// runs the etcd-server beside it, and ends it when the test does.
//
// It is a module of its own, since Kubernetes pins hundreds of modules that are none
// of Scriptorium's business.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as kube-apiserver has it
	_ "k8s.io/component-base/metrics/prometheus/version"  // as kube-apiserver has it
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		go endAtOnce()
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err) // prints and exits as kubectl does
		}
	case "etcd":
		os.Exit(attend(filepath.Join(filepath.Dir(os.Args[0]), "etcd-server")))
	default:
		fmt.Fprintf(os.Stderr, "kube: called as %q; link it as kube-apiserver, kubectl or etcd\n", name)
		os.Exit(2)
	}
}
