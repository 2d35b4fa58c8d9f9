package decision

import (
	"encoding/json"
	"maps"
)

// merged returns the members of both objects, either of which may be nil. Those of next win.
func merged(before, next json.RawMessage) (json.RawMessage, error) {
	if before == nil || next == nil {
		if next == nil {
			return before, nil
		}
		return next, nil
	}
	members, others := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.Unmarshal(before, &members); err != nil {
		return nil, invalid("metadata", "cannot be read: %v", err)
	}
	if err := json.Unmarshal(next, &others); err != nil {
		return nil, invalid("metadata", "cannot be read: %v", err)
	}
	maps.Copy(members, others)
	text, err := json.Marshal(members)
	if err != nil {
		return nil, invalid("metadata", "cannot be written: %v", err)
	}
	return text, nil
}

// fits returns an error if the scripts of a chain have decided more together than one may.
func (d *Decision) fits() error {
	headers, bytes := 0, 0
	for _, c := range []Changes{d.Request, d.Response} {
		headers += len(c.Remove) + len(c.Set) + len(c.Append)
		for _, name := range c.Remove {
			bytes += len(name)
		}
		for _, h := range c.Set {
			bytes += len(h.Name) + len(h.Value)
		}
		for _, h := range c.Append {
			bytes += len(h.Name) + len(h.Value)
		}
	}
	switch {
	case headers > maxHeaders || bytes > maxHeaderBytes:
		return invalid("headers", "with those of the scripts before in the chain, there are more than %d headers, or %d bytes of them", maxHeaders, maxHeaderBytes)
	case len(d.Metadata) > maxMetadata:
		return invalid("metadata", "has %d bytes of JSON with that of the scripts before in the chain: want at most %d", len(d.Metadata), maxMetadata)
	}
	return nil
}
