package instrument

import "unicode/utf8"

// appendNames appends a name section with the names of functions, so that the runtime's stack traces show them. It
// drops all other names, and names that are too long or too many. A section that is malformed gives the names before
// the fault: names are no part of what the module means.
func (p *parser) appendNames(b []byte) []byte {
	r := reader{buf: p.nameData}
	var names []byte
	n, total, last := 0, 0, -1
	for r.more() {
		id := r.byte()
		content := reader{buf: r.bytes(int(r.u32()))}
		if id != 1 || r.err != nil {
			continue
		}
		for range content.u32() {
			i := content.u32()
			name := content.bytes(int(content.u32()))
			if content.err != nil || int(i) >= len(p.funcTypes) || int(i) <= last || total > maxNamesBytes {
				break
			}
			last = int(i)
			if name = name[:min(len(name), maxFunctionNameBytes)]; !utf8.Valid(name) || len(name) == 0 {
				continue
			}
			n++
			total += len(name)
			p.m.names[p.function(i)] = string(name)
			names = appendName(appendU32(names, p.function(i)), string(name))
		}
		break
	}
	if n == 0 {
		return b
	}
	names = append(appendU32(nil, uint32(n)), names...)
	section := appendName(nil, "name")
	section = append(section, 1)
	section = append(appendU32(section, uint32(len(names))), names...)
	return append(appendU32(append(b, secCustom), uint32(len(section))), section...)
}
