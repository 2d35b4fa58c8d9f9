// Command generate writes the dashboards and rules of this tree's definitions to where they are shipped
// from: deploy/observability for kustomize and for people, and the chart. Run it in the root of the tree.
package main

import (
	"fmt"
	"os"

	"github.com/scriptorium-dev/scriptorium/deploy/observability"
)

func main() {
	if err := observability.Write("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
