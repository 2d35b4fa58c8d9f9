package lint

import (
	"strings"
	"sync"
)

// signatures are the parameters of the functions of libraries: name:type, in brackets if they are optional. "..." takes
// any number of arguments.
var signatures = map[string]string{
	"assert": "v ...", "error": "message [level:number]", "ipairs": "t:table", "next": "t [key]", "pairs": "t",
	"pcall": "f ...", "rawequal": "a b", "rawget": "t:table key", "rawset": "t:table key value", "require": "name:string",
	"select": "n ...", "setmetatable": "t:table meta", "getmetatable": "v", "tonumber": "v [base:number]", "tostring": "v",
	"type": "v", "unpack": "t:table [from:number] [to:number]", "xpcall": "f handler ...",
	"get_request_header": "name:string", "log_info": "message [fields:table]",

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

	"json.array": "[t:table]", "json.decode": "text:string", "json.encode": "value",
	"log.error": "message [fields:table]", "log.info": "message [fields:table]", "log.warn": "message [fields:table]",
	"base64.decode": "text:string", "base64.decode_url": "text:string", "base64.encode": "text:string", "base64.encode_url": "text:string",
	"re.escape": "text:string", "re.find": "text:string pattern:string [from:number]", "re.gsub": "text:string pattern:string replacement [most:number]",
	"re.match": "text:string pattern:string [from:number]", "re.test": "text:string pattern:string",
	"crypto.equal": "a:string b:string", "crypto.hex": "text:string", "crypto.hmac": "algorithm:string key:string text:string [encoding:string]",
	"crypto.md5": "text:string [encoding:string]", "crypto.random": "n:number [encoding:string]", "crypto.sha1": "text:string [encoding:string]",
	"crypto.sha256": "text:string [encoding:string]", "crypto.sha512": "text:string [encoding:string]", "crypto.unhex": "text:string", "crypto.uuid": "[version:number]",
	"time.duration": "text:string", "time.format": "seconds:number [format:string]", "time.monotonic": "", "time.now": "", "time.parse": "text:string [format:string]",
	"kv.get": "key:string", "kv.json": "key:string", "kv.keys": "[prefix:string] [after:string]",
	"counter.add": "name:string [n:number]", "counter.get": "name:string", "ratelimit.allow": "key:string options:table",

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
	all := map[string]*signature{}
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

// String returns the parameters as a person writes them: "s, n [, from]".
func (s *signature) String() string {
	var b strings.Builder
	for i, p := range s.parameters {
		switch {
		case p.optional && i > 0:
			b.WriteString(" [, " + p.name + "]")
		case p.optional:
			b.WriteString("[" + p.name + "]")
		case i > 0:
			b.WriteString(", " + p.name)
		default:
			b.WriteString(p.name)
		}
	}
	if s.rest {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString("...")
	}
	return b.String()
}
