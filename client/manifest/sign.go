package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const signatureField = "spec.signature"

// Sign returns data, which holds manifests as for Parse, with what sign returns as each one's
// spec.signature. All else stays as it was written; JSON is indented anew. Like Parse, it
// returns the faults of all manifests, and nothing else then.
func Sign(name string, data []byte, dir string, sign func(*Manifest) (string, error)) ([]byte, error) {
	manifests, err := Parse(name, data, dir)
	if err != nil {
		return nil, err
	}
	signatures := make([]string, len(manifests))
	for i := range manifests {
		if signatures[i], err = sign(&manifests[i]); err != nil {
			return nil, err
		}
	}
	if len(manifests) == 1 && signatures[0] == manifests[0].Signature {
		return data, nil
	}
	write := signYAML
	if filepath.Ext(name) == ".json" {
		write = signJSON
	}
	signed, err := write(name, data, signatures)
	if err != nil {
		return nil, err
	}
	return signed, checkSigned(name, signed, dir, manifests, signatures)
}

// checkSigned returns an error unless the manifests say what they said, and are signed.
func checkSigned(name string, signed []byte, dir string, before []Manifest, signatures []string) error {
	after, err := Parse(name, signed, dir)
	same := err == nil && len(after) == len(before)
	for i := 0; same && i < len(after); i++ {
		same = after[i].Signature == signatures[i] && after[i].Statement() == before[i].Statement()
	}
	if same {
		return nil
	}
	return &Error{File: name, Line: 1, Column: 1, Field: signatureField, Message: "cannot be put into this file without changing more: write spec as a plain block, and sign again", Err: err}
}

func signJSON(_ string, data []byte, signatures []string) ([]byte, error) {
	var document map[string]json.RawMessage
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	for _, signature := range signatures { // one, or none
		var spec map[string]json.RawMessage
		if err := json.Unmarshal(document["spec"], &spec); err != nil {
			return nil, err
		}
		spec["signature"] = quoted(signature)
		document["spec"] = raw(spec)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, raw(document), "", "  "); err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	return text.Bytes(), nil
}

// raw returns v, which JSON has a form of.
func raw(v any) json.RawMessage {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSpace(text.Bytes())
}

func quoted(signature string) json.RawMessage { return raw(signature) }

// edit puts text in the place of some bytes.
type edit struct {
	from, to int
	text     string
}

func signYAML(name string, data []byte, signatures []string) ([]byte, error) {
	var edits []edit
	docs := yaml.NewDecoder(bytes.NewReader(data))
	for _, signature := range signatures {
		var doc yaml.Node
		for len(doc.Content) == 0 || isNull(doc.Content[0]) { // which holds no manifest
			if err := docs.Decode(&doc); err != nil {
				return nil, syntaxError(name, err)
			}
		}
		spec := valueOf(doc.Content[0], "spec")
		if spec.Kind == yaml.AliasNode {
			spec = spec.Alias
		}
		e, err := signSpec(data, spec, signature)
		if err != nil {
			return nil, &Error{File: name, Line: spec.Line, Column: spec.Column, Field: signatureField, Message: err.Error()}
		}
		edits = append(edits, e)
	}
	for _, e := range slices.Backward(edits) {
		data = slices.Concat(data[:e.from], []byte(e.text), data[e.to:])
	}
	return data, nil
}

// signSpec returns what gives the spec the signature. It has neither quotes nor backslashes
// but JSON's.
func signSpec(data []byte, spec *yaml.Node, signature string) (edit, error) {
	single := "'" + signature + "'"
	if n := valueOf(spec, "signature"); n != nil {
		from := offset(data, n.Line, n.Column)
		to := from + bytes.IndexByte(data[from+1:], '\'') + 2
		if n.Style != yaml.SingleQuotedStyle || strings.Contains(n.Value, "'") || to < from+2 {
			return edit{}, fmt.Errorf("is not as scriptctl sign writes it: remove it, and sign again")
		}
		return edit{from, to, single}, nil
	}
	from := offset(data, spec.Line, spec.Column)
	if spec.Style&yaml.FlowStyle != 0 {
		return edit{from + 1, from + 1, "signature: " + single + ", "}, nil
	}
	return edit{from, from, "signature: " + single + "\n" + strings.Repeat(" ", spec.Column-1)}, nil
}

// offset returns where the column of the line begins, both from 1; columns are characters.
func offset(data []byte, line, column int) int {
	at := 0
	for range line - 1 {
		at += bytes.IndexByte(data[at:], '\n') + 1
	}
	text := string(data[at:])
	characters := 1
	for i := range text {
		if characters == column {
			return at + i
		}
		characters++
	}
	return len(data)
}
