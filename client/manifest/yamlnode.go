package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// object is a mapping that is written, its fields in the order that they were added in.
type object struct{ content []*yaml.Node }

// add adds a field, unless it has no value.
func (o *object) add(name string, value *yaml.Node) {
	if value != nil {
		o.content = append(o.content, scalar("!!str", name), value)
	}
}

// addJSON adds a field with a JSON value; field is what errors name.
func (o *object) addJSON(name, field string, value json.RawMessage) error {
	if len(value) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	budget := maxConfigNodes
	n, err := jsonNode(decoder, 0, &budget)
	if err != nil {
		return script.Errorf(script.Invalid, field, "cannot be written as YAML: %w", err)
	}
	o.add(name, n)
	return nil
}

// node returns the mapping; nil if it has no fields.
func (o *object) node() *yaml.Node {
	if len(o.content) == 0 {
		return nil
	}
	return &yaml.Node{Kind: yaml.MappingNode, Content: o.content}
}

// otherwise are texts that some parsers of YAML do not take for texts: the booleans and times of version 1.1.
var otherwise = regexp.MustCompile(`^(?i:y|n|yes|no|on|off)$|^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$|^<<$|^=$`)

func scalar(tag, value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
	if tag == "!!str" && (otherwise.MatchString(value) || strings.ContainsFunc(value, isSpecial) || strings.HasPrefix(strings.TrimLeft(value, "\n "), "\t") || strings.HasPrefix(value, "\n")) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// isSpecial reports whether blocks do not keep the character.
func isSpecial(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }

// text returns nil for an empty text.
func text(s string) *yaml.Node {
	if s == "" {
		return nil
	}
	return scalar("!!str", s)
}

func boolean(b bool) *yaml.Node { return scalar("!!bool", strconv.FormatBool(b)) }

func integer(n int) *yaml.Node { return scalar("!!int", strconv.Itoa(n)) }

// whole returns nil for 0.
func whole(n uint64) *yaml.Node {
	if n == 0 {
		return nil
	}
	return scalar("!!int", strconv.FormatUint(n, 10))
}

func number(f float64) *yaml.Node {
	value := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.Contains(value, ".") {
		return scalar("!!float", value)
	}
	return scalar("!!int", value)
}

// sequence returns nil for an empty list.
func sequence(items []*yaml.Node) *yaml.Node {
	if len(items) == 0 {
		return nil
	}
	return &yaml.Node{Kind: yaml.SequenceNode, Content: items}
}

func texts(all []string) *yaml.Node {
	var items []*yaml.Node
	for _, s := range all {
		items = append(items, scalar("!!str", s))
	}
	return sequence(items)
}

func labels(all map[string]string) *yaml.Node {
	var o object
	for _, name := range slices.Sorted(maps.Keys(all)) {
		o.add(name, scalar("!!str", all[name]))
	}
	return o.node()
}

// jsonNode returns the decoder's next value. YAML's parser does not take all of JSON, so it does not read that.
func jsonNode(decoder *json.Decoder, depth int, budget *int) (*yaml.Node, error) {
	if *budget--; *budget < 0 || depth > maxConfigDepth {
		return nil, fmt.Errorf("has more than %d values, or more than %d levels", maxConfigNodes, maxConfigDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case string:
		return scalar("!!str", v), nil
	case bool:
		return boolean(v), nil
	case json.Number:
		return jsonNumber(v), nil
	case json.Delim:
		return jsonCollection(decoder, v, depth, budget)
	}
	return scalar("!!null", "null"), nil
}

// jsonNumber writes a number so that YAML takes it for one, too: 1e3 has no point there.
func jsonNumber(n json.Number) *yaml.Node {
	if _, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return scalar("!!int", n.String())
	}
	if f, err := n.Float64(); err == nil && strings.ContainsAny(n.String(), "eE") {
		return scalar("!!float", strconv.FormatFloat(f, 'f', -1, 64))
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: n.String()}
}

func jsonCollection(decoder *json.Decoder, begin json.Delim, depth int, budget *int) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	if begin == '[' {
		n.Kind = yaml.SequenceNode
	}
	for decoder.More() {
		part, err := jsonNode(decoder, depth+1, budget)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, part)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err := decoder.Token() // that ends it
	return n, err
}
