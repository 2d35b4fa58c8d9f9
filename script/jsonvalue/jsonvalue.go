// Package jsonvalue compares JSON values by what they mean: numbers by their value, objects
// without the order of their members.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode reads one JSON value, and keeps numbers as they are written.
func Decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the value")
	}
	return v, nil
}

// encode is the reverse of Decode.
func encode(v any) json.RawMessage {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // Decode returns nothing that cannot be encoded
		return nil
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}
