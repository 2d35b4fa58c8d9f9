package manifest

import (
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

// InOrder returns the manifests so that each comes behind those that its rollout comes after and the libraries
// that it requires, and otherwise in the order that they have. Those of a cycle stay where they are.
func InOrder(manifests []Manifest) []Manifest {
	at := make(map[script.Name]int, len(manifests))
	for i := range manifests {
		at[manifests[i].Name] = i
	}
	ordered, visited := make([]Manifest, 0, len(manifests)), make([]bool, len(manifests))
	var visit func(i int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true
		for _, name := range slices.Concat(manifests[i].Settings.Rollout.After, manifests[i].requires()) {
			if before, ok := at[name]; ok {
				visit(before)
			}
		}
		ordered = append(ordered, manifests[i])
	}
	for i := range manifests {
		visit(i)
	}
	return ordered
}
