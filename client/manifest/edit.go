package manifest

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// previousNode returns the document of a text that can be edited: one manifest, without aliases; nil if it is none.
func previousNode(text []byte) *yaml.Node {
	if len(text) == 0 || len(text) > MaxFileBytes || checkText("", text) != nil {
		return nil
	}
	var document, another yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if documents.Decode(&document) != nil || !errors.Is(documents.Decode(&another), io.EOF) {
		return nil
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode || !isPlain(&document) {
		return nil
	}
	return &document
}

// isPlain reports whether there are no aliases and anchors, which may stand for more than one place, and no keys that are
// there twice.
func isPlain(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return false
	}
	seen := map[string]bool{}
	for i, part := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if seen[part.Value] || part.Kind != yaml.ScalarNode {
				return false
			}
			seen[part.Value] = true
		}
		if !isPlain(part) {
			return false
		}
	}
	return true
}

// edited returns the document with what wanted says. The fields of metadata that are about something else stay.
func edited(document, wanted *yaml.Node) *yaml.Node {
	old := document.Content[0]
	for _, field := range []string{"metadata", "status"} {
		was, want := valueOf(old, field), valueOf(wanted, field)
		switch {
		case was == nil:
		case want == nil:
			wanted.Content = append(wanted.Content, scalar("!!str", field), was)
		case was.Kind == yaml.MappingNode:
			for i := 0; i+1 < len(was.Content); i += 2 {
				if name := was.Content[i].Value; name != "name" && valueOf(want, name) == nil {
					want.Content = append(want.Content, was.Content[i], was.Content[i+1])
				}
			}
		}
	}
	keepDefaults(valueOf(old, "spec"), valueOf(wanted, "spec"))
	document.Content[0] = merged(old, wanted)
	return document
}

// keepDefaults adds the fields of the old spec that say what is so without them.
func keepDefaults(old, wanted *yaml.Node) {
	if old == nil || old.Kind != yaml.MappingNode {
		return
	}
	for name, value := range map[string]string{"runtime": script.EngineLua, "entrypoint": DefaultEntrypoint, "enabled": "true", "library": "false"} {
		if was := valueOf(old, name); was != nil && was.Value == value && valueOf(wanted, name) == nil {
			wanted.Content = append(wanted.Content, scalar("!!str", name), was)
		}
	}
}

// merged returns the value wanted, with the comments, the order and the form of the old one where both say the same.
func merged(old, wanted *yaml.Node) *yaml.Node {
	if old.Kind != wanted.Kind {
		return commented(old, wanted)
	}
	switch old.Kind {
	case yaml.ScalarNode:
		if old.ShortTag() == wanted.ShortTag() && old.Value == wanted.Value {
			return old
		}
		return commented(old, wanted)
	case yaml.SequenceNode:
		return mergedList(old, wanted)
	case yaml.MappingNode:
		return mergedFields(old, wanted)
	}
	return wanted
}

// mergedList takes items at their places.
func mergedList(old, wanted *yaml.Node) *yaml.Node {
	items := make([]*yaml.Node, len(wanted.Content))
	for i, item := range wanted.Content {
		items[i] = item
		if i < len(old.Content) {
			items[i] = merged(old.Content[i], item)
		}
	}
	old.Content = items
	return old
}

func mergedFields(old, wanted *yaml.Node) *yaml.Node {
	var content []*yaml.Node
	var known []string
	for i := 0; i+1 < len(old.Content); i += 2 {
		key := old.Content[i]
		known = append(known, key.Value)
		if value := valueOf(wanted, key.Value); value != nil {
			content = append(content, key, merged(old.Content[i+1], value))
		}
	}
	for i := 0; i+1 < len(wanted.Content); i += 2 {
		if !slices.Contains(known, wanted.Content[i].Value) {
			content = append(content, wanted.Content[i], wanted.Content[i+1])
		}
	}
	if len(old.Content) == 0 {
		old.Style = 0 // {} has become a block
	}
	old.Content = content
	return old
}

// commented returns wanted with the comments of the old value.
func commented(old, wanted *yaml.Node) *yaml.Node {
	wanted.HeadComment, wanted.LineComment, wanted.FootComment = old.HeadComment, old.LineComment, old.FootComment
	return wanted
}
