package manifest

import (
	"encoding/json"
	"math"

	"go.yaml.in/yaml/v3"
)

// Bounds of a JSON value, such as spec.config, which aliases could blow up.
const (
	maxConfigNodes = 10_000
	maxConfigDepth = 32
	// maxAliasedBytes is the size of all texts in JSON values of a file, where aliases count as what they stand for.
	maxAliasedBytes = 4 * MaxFileBytes
)

// config returns the object in n as JSON, keys in order, so that equal settings
// are equal bytes; nil for none.
func (d *decoder) config(n *yaml.Node, path string) json.RawMessage {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "is %s, want an object", describe(n))
		return nil
	}
	return d.json(n, path)
}

// charge counts the text, and reports whether the file may have it.
func (d *decoder) charge(n *yaml.Node, path, text string) bool {
	if d.bytes += len(text); d.bytes > maxAliasedBytes {
		d.fault(n, path, "the values of this file have, with aliases, more than %d bytes: use fewer aliases", maxAliasedBytes)
		return false
	}
	return true
}

func (d *decoder) configValue(n *yaml.Node, path string, depth int, budget *int) any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if *budget--; *budget < 0 {
		return nil
	}
	if !d.charge(n, path, n.Value) {
		*budget = 0
		return nil
	}
	if depth > maxConfigDepth {
		d.fault(n, path, "is nested deeper than %d", maxConfigDepth)
		*budget = 0
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, d.configValue(item, path+"[]", depth+1, budget))
		}
		return list
	case yaml.MappingNode:
		return d.configObject(n, path, depth, budget)
	default:
		return d.configScalar(n, path)
	}
}

func (d *decoder) configObject(n *yaml.Node, path string, depth int, budget *int) map[string]any {
	object := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		field := path + "." + key.Value
		if !isScalar(key, "!!str") {
			d.fault(key, path, "has a key that is %s: put keys in quotes", describe(key))
			continue
		}
		if !d.charge(key, path, key.Value) {
			*budget = 0
			break
		}
		if _, ok := object[key.Value]; ok {
			d.fault(key, field, "is there twice: remove one")
			continue
		}
		object[key.Value] = d.configValue(n.Content[i+1], field, depth+1, budget)
	}
	return object
}

func (d *decoder) configScalar(n *yaml.Node, path string) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!str", "!!timestamp":
		return n.Value
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			break
		}
		if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
			d.fault(n, path, "is %s, which JSON has not", n.Value)
			return nil
		}
		return v
	}
	d.fault(n, path, "is %s, want a JSON value", describe(n))
	return nil
}
