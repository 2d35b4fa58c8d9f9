package agentd

import "maps"

// withValues returns the labels that have a value. A manifest may name a label whose value
// not every node has, such as its zone.
func withValues(labels map[string]string) map[string]string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(_, value string) bool { return value == "" })
	return kept
}
