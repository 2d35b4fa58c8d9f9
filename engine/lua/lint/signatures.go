package lint

import (
	"strings"
	"sync"

	"github.com/scriptorium-dev/scriptorium/docs/api"
)

// signatures are the parameters of Lua's own functions: name:type, in brackets if they are optional. "..." takes any
// number of arguments. docs/api/scriptorium.lua has those of other functions.
var signatures = map[string]string{
	"assert": "v ...", "error": "[message] [level:number]", "ipairs": "t:table", "next": "t [key]", "pairs": "t",
	"pcall": "f ...", "rawequal": "a b", "rawget": "t:table key", "rawset": "t:table key value", "require": "name:string",
	"select": "n ...", "setmetatable": "t:table meta", "getmetatable": "v", "tonumber": "v [base:number]", "tostring": "v",
	"type": "v", "unpack": "t:table [from:number] [to:number]", "xpcall": "f handler ...",

	"string.byte": "s:string [from:number] [to:number]", "string.char": "...", "string.find": "s:string pattern:string [from:number] [plain]",
	"string.format": "format:string ...", "string.gmatch": "s:string pattern:string", "string.gsub": "s:string pattern:string replacement [most:number]",
	"string.len": "s:string", "string.lower": "s:string", "string.match": "s:string pattern:string [from:number]",
	"string.rep": "s:string n:number", "string.reverse": "s:string", "string.sub": "s:string from:number [to:number]", "string.upper": "s:string",

	"table.concat": "t:table [separator:string] [from:number] [to:number]", "table.insert": "t:table position [value]",
	"table.getn": "t:table", "table.maxn": "t:table", "table.remove": "t:table [position:number]", "table.sort": "t:table [less:function]",

	"math.abs": "x:number", "math.acos": "x:number", "math.asin": "x:number", "math.atan": "x:number", "math.atan2": "y:number x:number",
	"math.ceil": "x:number", "math.cos": "x:number", "math.cosh": "x:number", "math.deg": "x:number", "math.exp": "x:number",
	"math.floor": "x:number", "math.fmod": "a:number b:number", "math.frexp": "x:number", "math.ldexp": "m:number e:number",
	"math.log": "x:number", "math.log10": "x:number", "math.max": "x:number ...", "math.mod": "a:number b:number", "math.min": "x:number ...", "math.modf": "x:number",
	"math.pow": "x:number y:number", "math.rad": "x:number", "math.random": "[from:number] [to:number]", "math.randomseed": "x:number",
	"math.sin": "x:number", "math.sinh": "x:number", "math.sqrt": "x:number", "math.tan": "x:number", "math.tanh": "x:number",

	"os.clock": "", "os.date": "[format:string] [time:number]", "os.difftime": "a:number b:number", "os.time": "[t:table]",

	"coroutine.create": "f:function", "coroutine.resume": "co ...", "coroutine.running": "", "coroutine.status": "co",
	"coroutine.wrap": "f:function", "coroutine.yield": "...",
}

// parameter of a function.
type parameter struct {
	name, kind string // kind is string, number, table or function; "" for any
	optional   bool
}

// signature is the parameters of a function.
type signature struct {
	parameters []parameter
	least      int
	rest       bool // it takes any number of arguments after the parameters
}

var parsed = sync.OnceValue(func() map[string]*signature {
	all := defined(api.Parse(api.Globals))
	for name, text := range signatures {
		s := &signature{}
		for field := range strings.FieldsSeq(text) {
			if field == "..." {
				s.rest = true
				continue
			}
			inner := strings.TrimSuffix(strings.TrimPrefix(field, "["), "]")
			p := parameter{optional: inner != field}
			p.name, p.kind, _ = strings.Cut(inner, ":")
			if !p.optional {
				s.least++
			}
			s.parameters = append(s.parameters, p)
		}
		all[name] = s
	}
	return all
})

// defined returns the functions that definitions have.
func defined(d *api.Definitions) map[string]*signature {
	types := map[string]string{}
	for name, text := range d.Aliases {
		types[name] = kindOf(nil, text)
	}
	for _, c := range d.Classes {
		types[c.Name] = kindOfTable
	}
	all := map[string]*signature{}
	for _, f := range d.Functions {
		s := &signature{}
		for _, p := range f.Parameters {
			if p.Name == "..." {
				s.rest = true
				continue
			}
			s.parameters = append(s.parameters, parameter{name: p.Name, kind: kindOf(types, p.Type), optional: p.Optional})
			if !p.Optional {
				s.least++
			}
		}
		all[f.Name] = s
	}
	return all
}

// kindOf returns what all alternatives of a type are; "" if they differ.
func kindOf(types map[string]string, text string) (kind string) {
	for i, one := range strings.Split(text, "|") {
		known, isNamed := types[one]
		switch {
		case isNamed:
		case one == kindOfText || strings.HasPrefix(one, `"`):
			known = kindOfText
		case one == kindOfNumber || one == "integer" || strings.Trim(one, "0123456789") == "":
			known = kindOfNumber
		case strings.HasPrefix(one, kindOfTable):
			known = kindOfTable
		case strings.HasPrefix(one, "fun("):
			known = kindOfFunction
		}
		if i > 0 && known != kind {
			return ""
		}
		kind = known
	}
	return kind
}

// String returns the parameters as a person writes them: "s, n [, from [, to]]".
func (s *signature) String() string {
	var b strings.Builder
	optional := 0
	for i, p := range s.parameters {
		switch {
		case p.optional && i > 0:
			b.WriteString(" [, ")
		case p.optional:
			b.WriteString("[")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(p.name)
		if p.optional {
			optional++
		}
	}
	b.WriteString(strings.Repeat("]", optional))
	if s.rest {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString("...")
	}
	return b.String()
}
