package imports

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/script"
)

// redisPrelude stands in place of the first line of a library: what Redis offers, as far as scripts here have it. All of
// it is one line, so that the other lines keep their numbers.
const redisPrelude = `local functions, cjson = {}, json; local redis = {LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3, ` +
	`register_function = function(name, callback) if type(name) == "table" then name, callback = name.function_name, name.callback end functions[name] = callback end, ` +
	`call = function(command, key, ...) command = string.upper(command) ` +
	`if command == "GET" then return kv.get(key) or false end ` +
	`if command == "EXISTS" then return kv.get(key) and 1 or 0 end ` +
	`if command == "MGET" then local values = json.array() for i, k in ipairs({key, ...}) do values[i] = kv.get(k) or false end return values end ` +
	`if command == "TIME" then return {tostring(os.time()), "0"} end ` +
	`error("redis.call " .. command .. ": scripts here read values of the tenant with GET, MGET and EXISTS, and write nothing", 2) end, ` +
	`log = function(level, message) if level == 3 then log.warn(message) else log.info(message) end end, ` +
	`sha1hex = function(text) return crypto.sha1(text) end, ` +
	`status_reply = function(text) return {ok = text} end, error_reply = function(text) return {err = text} end}; ` +
	`redis.pcall = function(...) local ok, value = pcall(redis.call, ...) if ok then return value end return {err = value} end; `

// redisCommands are those that redisPrelude has.
var redisCommands = []string{"GET", "MGET", "EXISTS", "TIME"}

// redisMissing are globals and members that Redis has and scripts here do not, and why.
var redisMissing = map[string]string{
	"cmsgpack": "there is no MessagePack here: use json", "struct": "there is no struct here", "bit": "there are no bit operations here",
	"redis.setresp": "results here are JSON", "redis.set_repl": "nothing is replicated here", "redis.replicate_commands": "nothing is replicated here",
	"cjson.null":       "a member that is null reads as nil here: compare it with nil. Elements of arrays are cjson.null",
	"redis.breakpoint": "there is no debugger here", "redis.debug": "there is no debugger here", "redis.acl_check_cmd": "there are no commands here",
}

// shebang is the first line of a library.
var shebang = regexp.MustCompile(`^#!lua\s+.*name=([\w-]+)`)

// Redis reads a file: a library of FUNCTION LOAD, of which each function becomes a script that takes keys and args, or a
// script of EVAL.
func Redis(file, tenant string) (*Bundle, error) {
	b := &Bundle{Tenant: tenant}
	data, err := manifest.ReadFile(file)
	if err != nil {
		return nil, err
	}
	first, rest, _ := strings.Cut(string(data), "\n")
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	m := shebang.FindStringSubmatch(first)
	if m == nil {
		source := redisPrelude + "function handle(KEYS, ARGV) " + string(data) + "\nend\n"
		b.redisScript(label(base), file, source, string(data))
		return b, nil
	}
	body := "\n" + rest
	names := b.registered(file, body)
	if len(names) == 0 {
		return nil, script.Errorf(script.Invalid, file, "registers no function with a constant name: redis.register_function('name', function(keys, args) … end)")
	}
	for i, name := range names {
		source := redisPrelude + body + fmt.Sprintf("\nfunction handle(keys, args)\n  return functions[%q](keys or {}, args or {})\nend\n", name)
		looked := body
		if i > 0 {
			looked = "" // its findings are those of the first one
		}
		b.redisScript(label(m[1], name), file, source, looked)
	}
	return b, nil
}

func (b *Bundle) redisScript(name, file, source, looked string) {
	if b.addSource(name, file, 1, "handle", []byte(source)) != nil {
		b.redisFindings(file, looked)
	}
}

// tokensOf returns the tokens of a text that is a chunk, or the body of a function.
func tokensOf(text string) []compile.Token {
	syntax, ok := compile.Parse([]byte(text))
	if !ok {
		syntax, _ = compile.Parse([]byte("local function f(KEYS, ARGV) " + text + "\nend"))
	}
	return syntax.Tokens
}

// registered returns the names of the functions of a library.
func (b *Bundle) registered(file, body string) (names []string) {
	tokens := tokensOf(body)
	for i := 0; i+2 < len(tokens); i++ {
		var text string
		switch {
		case tokens[i].Text == "register_function" && tokens[i+1].Text == "(":
			text = tokens[i+2].Text
		case tokens[i].Text == "function_name" && tokens[i+1].Text == "=":
			text = tokens[i+2].Text
		default:
			continue
		}
		switch name, ok := quoted(text); {
		case ok:
			names = append(names, name)
		case text != "{":
			b.leave(file, tokens[i].Line, "the name of the function is no constant text")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// quoted returns the text of a string token.
func quoted(token string) (text string, ok bool) {
	if len(token) < 2 || token[0] != '\'' && token[0] != '"' {
		return "", false
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(token[1:len(token)-1], `"`, `\"`) + `"`)
	return text, err == nil
}

// redisFindings names what cannot run here.
func (b *Bundle) redisFindings(file, body string) {
	tokens := tokensOf(body)
	for i := range tokens {
		name := tokens[i].Text
		if i+2 < len(tokens) && (name == "redis" || name == "cjson") && tokens[i+1].Text == "." {
			name += "." + tokens[i+2].Text
		}
		why, ok := redisMissing[name]
		if member, is := strings.CutPrefix(name, "cjson."); !ok && is {
			_, known := lua.HasMember("json", member)
			why, ok = "cjson is json here, which has encode, decode and null", !known
		}
		if ok && (i == 0 || tokens[i-1].Text != ".") {
			b.leave(file, tokens[i].Line, "%s: %s", name, why)
		}
		if (name != "redis.call" && name != "redis.pcall") || i+4 >= len(tokens) {
			continue
		}
		switch command, ok := quoted(tokens[i+4].Text); {
		case !ok:
			b.leave(file, tokens[i].Line, "the command of %s is no constant text: GET, MGET, EXISTS and TIME run, others fail", name)
		case !slices.Contains(redisCommands, strings.ToUpper(command)):
			b.leave(file, tokens[i].Line, "%s %s: scripts here read values of the tenant with GET, MGET and EXISTS, and write nothing. counter and ratelimit count on the node", name, strings.ToUpper(command))
		}
	}
}
