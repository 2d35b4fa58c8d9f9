// Package e2e tests Scriptorium on a real cluster, end to end: from `kubectl apply` to
// the answers of gateway pods on each node. `make e2e` runs it; README.md says what it
// needs. The tests have the build tag e2e.
package e2e
