package manifest

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NewValue is a value that is added to the document of a change set: a file, or else a text.
type NewValue struct {
	Key  string
	File string // relative to the folder of the document
	Text string // if File is ""
}

// AddToChangeSet returns data, which holds a change set as for ParseChangeSet, with more files of
// scripts and more values, and the change set that it is then. All else stays as it was written.
// If the result has faults, it returns only the faults.
func AddToChangeSet(name string, data []byte, dir string, paths []string, values []NewValue) ([]byte, *ChangeSet, error) {
	before, err := ParseChangeSet(name, data, dir)
	if err != nil {
		return nil, nil, err
	}
	for i, path := range paths {
		if slices.Contains(before.paths, path) || slices.Contains(paths[:i], path) {
			return nil, nil, before.faulty(scriptsField, "%s is there already", path)
		}
	}
	for i, v := range values {
		if before.has(v.Key) || slices.ContainsFunc(values[:i], func(other NewValue) bool { return other.Key == v.Key }) {
			return nil, nil, before.faulty(valuesField, "%s is there already: change it in the file", v.Key)
		}
	}
	text := changeSetText{data: data, json: filepath.Ext(name) == ".json"}
	scripts, contents := make([]string, len(paths)), make([]string, len(values))
	for i, path := range paths {
		scripts[i] = text.scalar(path)
	}
	for i, v := range values {
		contents[i] = text.value(v)
	}
	byHand := before.faulty("spec", "cannot be added to without changing more: write spec as a plain block, or add by hand")
	if !text.add("scripts", "- ", scripts) || !text.add("values", "", contents) {
		return nil, nil, byHand
	}
	after, err := ParseChangeSet(name, text.data, dir)
	if err != nil {
		return nil, nil, err
	}
	if !after.extends(before, paths, values) {
		return nil, nil, byHand
	}
	return text.data, after, nil
}

func (c *ChangeSet) has(key string) bool {
	return slices.ContainsFunc(c.Values, func(v Value) bool { return v.Key == key })
}

// extends reports whether c says what before says, and has the paths and values besides.
func (c *ChangeSet) extends(before *ChangeSet, paths []string, values []NewValue) bool {
	want := slices.Sorted(slices.Values(slices.Concat(before.paths, paths)))
	same := c.Name == before.Name && c.Tenant == before.Tenant && (c.Rollout == nil) == (before.Rollout == nil) &&
		(c.Rollout == nil || c.Rollout.Equal(*before.Rollout)) && slices.Equal(slices.Sorted(slices.Values(c.paths)), want) &&
		len(c.Values) == len(before.Values)+len(values)
	for _, v := range before.Values {
		same = same && slices.ContainsFunc(c.Values, func(other Value) bool { return other.Key == v.Key && bytes.Equal(other.Content, v.Content) })
	}
	for _, v := range values {
		same = same && slices.ContainsFunc(c.Values, func(other Value) bool { return other.Key == v.Key && (v.File != "" || string(other.Content) == v.Text) })
	}
	return same
}

// changeSetText is the text of a document, which grows.
type changeSetText struct {
	data []byte
	json bool
}

// fileName matches paths that YAML takes for text without quotes, plainKey keys.
var (
	fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_/.-]*\.[A-Za-z]+$`)
	plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_/.-]*$`)
)

func (t *changeSetText) scalar(path string) string {
	if !t.json && fileName.MatchString(path) {
		return path
	}
	return string(quoted(path))
}

func (t *changeSetText) value(v NewValue) string {
	key, name, content := v.Key, "file", t.scalar(v.File)
	if v.File == "" {
		name, content = "text", string(quoted(v.Text))
	}
	if t.json || !plainKey.MatchString(key) {
		key = string(quoted(key))
	}
	if t.json {
		name = string(quoted(name))
	}
	return key + ": {" + name + ": " + content + "}"
}

// add adds entries to the list or map that is the field of spec. Each line of a block begins with
// dash. ok is false if the text does not show how.
func (t *changeSetText) add(field, dash string, entries []string) (ok bool) {
	if len(entries) == 0 {
		return true
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(t.data, &doc); err != nil || len(doc.Content) == 0 {
		return false
	}
	spec := valueOf(doc.Content[0], "spec")
	if spec == nil || spec.Kind != yaml.MappingNode {
		return false
	}
	key, n := entryOf(spec, field)
	flow := strings.Join(entries, ", ")
	start := offset(t.data, spec.Line, spec.Column)
	inFlow := spec.Style&yaml.FlowStyle != 0
	switch {
	case key == nil && inFlow:
		brackets := map[string]string{"- ": "[%]", "": "{%}"}[dash]
		t.insert(start+1, string(quoted(field))+": "+strings.Replace(brackets, "%", flow, 1)+", ")
	case key == nil:
		indent := strings.Repeat(" ", spec.Column-1)
		t.insert(start, field+":"+block(spec.Column+1, dash, entries)+"\n"+indent)
	case n.Kind == yaml.AliasNode, isNull(n) && n.Value != "":
		return false
	case isNull(n):
		t.insert(t.endOf(key.Line), block(key.Column+1, dash, entries))
	case n.Style&yaml.FlowStyle != 0:
		return t.addToFlow(n, len(n.Content) == 0 && !inFlow && !t.json, key.Column+1, dash, entries)
	case n.Kind == yaml.SequenceNode:
		t.insert(t.endOfBlock(n.Content[len(n.Content)-1].Line, n.Column-1), block(n.Column-1, dash, entries))
	default:
		last := n.Content[len(n.Content)-2]
		t.insert(t.endOfBlock(last.Line, last.Column-1), block(last.Column-1, dash, entries))
	}
	return true
}

// addToFlow adds the entries at the start of n, such as [a, b]. An empty one becomes a block if it may.
func (t *changeSetText) addToFlow(n *yaml.Node, becomesBlock bool, indent int, dash string, entries []string) bool {
	from := offset(t.data, n.Line, n.Column)
	end := bytes.IndexAny(t.data[from:], "]}")
	if t.data[from] != '[' && t.data[from] != '{' || end < 0 {
		return false
	}
	if !becomesBlock {
		text := strings.Join(entries, ", ")
		if len(n.Content) > 0 {
			text += ", "
		}
		t.insert(from+1, text)
		return true
	}
	before := bytes.TrimRight(t.data[:from], " ")
	t.insert(t.endOf(n.Line), block(indent, dash, entries))
	t.data = slices.Concat(before, t.data[from+end+1:])
	return true
}

// block returns the entries as lines, each after a line break.
func block(indent int, dash string, entries []string) string {
	var text strings.Builder
	for _, e := range entries {
		text.WriteString("\n" + strings.Repeat(" ", indent) + dash + e)
	}
	return text.String()
}

func (t *changeSetText) insert(at int, text string) {
	t.data = slices.Concat(t.data[:at], []byte(text), t.data[at:])
}

// endOf returns where the line ends, from 1.
func (t *changeSetText) endOf(line int) int {
	start := offset(t.data, line, 1)
	if end := bytes.IndexByte(t.data[start:], '\n'); end >= 0 {
		return start + end
	}
	return len(t.data)
}

// endOfBlock returns where the entry ends that begins in the line: with the last line below it that
// is indented deeper.
func (t *changeSetText) endOfBlock(line, indent int) int {
	end := t.endOf(line)
	for at := end; at < len(t.data); {
		next := at + 1
		text, _, _ := bytes.Cut(t.data[next:], []byte("\n"))
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
			if len(text)-len(bytes.TrimLeft(text, " ")) <= indent {
				break
			}
			end = next + len(text)
		}
		at = next + len(text)
	}
	return end
}

// entryOf returns the key and the value of the field of an object; nil for none.
func entryOf(n *yaml.Node, field string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == field {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}
