package decision

import (
	"bytes"
	"slices"
)

// members decodes a JSON object into v, whose members have names in lower case. encoding/json
// takes names of another case and names that come twice, where the last one holds, and leaves what
// a null is for as it is: each can undo allow = false.
func members(text []byte, v any) error {
	if err := strict(text, v); err != nil {
		return err
	}
	return checkMembers(text)
}

// checkMembers returns an error if a member of the object is not spelled as it has to be, is there
// twice, or is null. The text has been decoded: it is valid, and knows few names.
func checkMembers(text []byte) error {
	var seen [][]byte
	for depth, i := 0, 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := i + 1
			for ; text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			name, behind := text[i+1:end], bytes.TrimLeft(text[end+1:], " \t\r\n")
			i = end
			if depth != 1 || len(behind) == 0 || behind[0] != ':' {
				continue
			}
			switch value := bytes.TrimLeft(behind[1:], " \t\r\n"); {
			case len(bytes.Trim(name, "abcdefghijklmnopqrstuvwxyz_")) > 0:
				return invalid(string(name), "is unknown: the names of members are in lower case")
			case slices.ContainsFunc(seen, func(other []byte) bool { return bytes.Equal(other, name) }):
				return invalid(string(name), "is there twice")
			case value[0] == 'n':
				return invalid(string(name), "is null: leave it out, or give it a value")
			}
			seen = append(seen, name)
		}
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *changes) UnmarshalJSON(b []byte) error {
	type plain changes
	return members(b, (*plain)(c))
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *rateLimit) UnmarshalJSON(b []byte) error {
	type plain rateLimit
	return members(b, (*plain)(l))
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *cookie) UnmarshalJSON(b []byte) error {
	type plain cookie
	return members(b, (*plain)(c))
}
