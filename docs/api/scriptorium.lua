---@meta scriptorium
-- What Scriptorium's scripts find beside Lua 5.1, for the Lua language server. Version 2.

---A request, as gateways pass it. A header that came more than once is a list.
---@class Request
---@field method string
---@field scheme string
---@field host string
---@field path string without a query, and clean: "/x/..//%61dmin" is "/admin"
---@field raw_path? string as the client sent it, if path differs
---@field query string what follows "?"
---@field query_params table<string, string|string[]> by name, parsed from query at the first use
---@field headers table<string, string|string[]> by name in lower case
---@field cookies table<string, string> by name, parsed from headers.cookie at the first use
---@field remote_addr string the client's IP address, without a port
---@field body? string when the gateway sends it
---@field client_certificate? string its subject, when the gateway sends it
---@field route? string the gateway's name for the route, when it sends one
---@field params? table<string, string> settings of the gateway for this call
---@field tenant string

---Which headers change.
---@class HeaderChanges
---@field set? table<string, string|number|string[]>
---@field append? table<string, string|number|string[]>
---@field remove? string[]

---A cookie for the client.
---@class Cookie
---@field name string
---@field value string
---@field path? string "/" if it is absent
---@field domain? string
---@field max_age? integer seconds; 0 deletes the cookie
---@field secure? boolean true if it is absent
---@field http_only? boolean true if it is absent
---@field same_site? "lax"|"strict"|"none" "lax" if it is absent

---What is left of a limit.
---@class RateLimit
---@field limit integer
---@field remaining integer
---@field reset? integer seconds until it is whole again

---What a script may return for a request. Nothing at all lets it go on as it is.
---@class Decision
---@field allow? boolean false answers now
---@field status? integer of that answer
---@field body? string of that answer
---@field redirect? string the Location of an answer, with the status 302 or another one
---@field headers? HeaderChanges of the request
---@field response_headers? HeaderChanges of the answer to the client
---@field cookies? Cookie[]
---@field vary? string[] names of request headers that the answer depends on
---@field rate_limit? RateLimit
---@field upstream? string where the request goes
---@field path? string
---@field query? string
---@field metadata? table<string, any> for the gateway's own use

---The response to a request, as gateways pass it to on_response. A header that came more than once is a list.
---@class Response
---@field status integer
---@field headers table<string, string|string[]> by name in lower case
---@field body? string when the gateway sends it

---What on_response may return. Nothing at all lets the response go on as it is.
---@class Outcome
---@field allow? boolean false answers in the upstream's place
---@field status? integer of the response, or of that answer
---@field body? string of the response, or of that answer
---@field redirect? string the Location of an answer, with the status 302 or another one
---@field response_headers? HeaderChanges
---@field cookies? Cookie[]
---@field vary? string[] names of request headers that the response depends on
---@field rate_limit? RateLimit
---@field metadata? table<string, any> for the gateway's own use

---The script's settings: spec.config of its manifest.
---@type table<string, any>
config = {}

---Returns a header of the request that the call got, in whatever case; the first value, if it came more than once.
---@param name string
---@return string?
function get_request_header(name) end

---Logs a line.
---@param message any
---@param fields? table<string, any>
function log_info(message, fields) end

---@class log
log = {}

---@param message any
---@param fields? table<string, any>
function log.info(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.warn(message, fields) end

---@param message any
---@param fields? table<string, any>
function log.error(message, fields) end

---@class json
json = {}

---JSON's null in an array, or to write it. It is equal to itself alone, and true in a condition.
---@class json.null
json.null = {}

---@param value any
---@return string
function json.encode(value) end

---Raises an error if text is not JSON.
---@param text string
---@return any
function json.decode(text) end

---Marks a table, or a new one, as an array.
---@generic T: table
---@param t? T
---@return T
function json.array(t) end

---@class base64
base64 = {}

---@param text string
---@return string
function base64.encode(text) end

---With - and _, and without padding.
---@param text string
---@return string
function base64.encode_url(text) end

---@param text string
---@return string? decoded
---@return string? problem
function base64.decode(text) end

---@param text string
---@return string? decoded
---@return string? problem
function base64.decode_url(text) end

---Regular expressions as RE2 has them.
---@class re
re = {}

---@param text string
---@param pattern string
---@return boolean
function re.test(text, pattern) end

---Returns the captures of the first match, or all of it; nil if there is none.
---@param text string
---@param pattern string
---@param from? integer
---@return string|false|nil ...
function re.match(text, pattern, from) end

---@param text string
---@param pattern string
---@param from? integer
---@return integer? first
---@return integer? last
---@return string|false ...
function re.find(text, pattern, from) end

---@param text string
---@param pattern string
---@param replacement string|number|table|fun(...: string|false): string|number|false|nil
---@param most? integer
---@return string
---@return integer count
function re.gsub(text, pattern, replacement, most) end

---Returns a pattern for the text itself.
---@param text string
---@return string
function re.escape(text) end

---@alias crypto.encoding "hex"|"base64"|"base64url"|"raw"

---@class crypto
crypto = {}

---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.sha256(text, encoding) end

---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.sha512(text, encoding) end

---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.sha1(text, encoding) end

---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.md5(text, encoding) end

---@param algorithm "sha256"|"sha512"|"sha1"|"md5"
---@param key string
---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.hmac(algorithm, key, text, encoding) end

---@param n integer bytes, 1 to 1024
---@param encoding? crypto.encoding
---@return string
function crypto.random(n, encoding) end

---@param version? 4|7
---@return string
function crypto.uuid(version) end

---Takes as long wherever the two differ.
---@param a string
---@param b string
---@return boolean
function crypto.equal(a, b) end

---@param text string
---@return string
function crypto.hex(text) end

---@param text string
---@return string? decoded
---@return string? problem
function crypto.unhex(text) end

---@alias time.format "rfc3339"|"http"

---@class time
time = {}

---Seconds since 1970.
---@return number
function time.now() end

---Seconds since the agent started, which never jump.
---@return number
function time.monotonic() end

---@param seconds number
---@param format? time.format
---@return string
function time.format(seconds, format) end

---@param text string
---@param format? time.format
---@return number? seconds
---@return string? problem
function time.parse(text, format) end

---Reads "1h30m" or "250ms".
---@param text string
---@return number? seconds
---@return string? problem
function time.duration(text) end

---The tenant's key-value data.
---@class kv
kv = {}

---@param key string
---@return string?
function kv.get(key) end

---@param key string
---@return any
function kv.json(key) end

---At most 1,000, in order.
---@param prefix? string
---@param after? string
---@return string[]
function kv.keys(prefix, after) end

---The tenant's counters on this node.
---@class counter
counter = {}

---@param name string
---@param n? number 1 unless given
---@return number
function counter.add(name, n) end

---@param name string
---@return number
function counter.get(name) end

---@class ratelimit.options
---@field rate number tokens a second
---@field burst? number
---@field cost? number

---@class ratelimit
ratelimit = {}

---@param key string
---@param options ratelimit.options
---@return boolean allowed
---@return number seconds until it would be
function ratelimit.allow(key, options) end

---@class scriptorium
scriptorium = {}

---The version of all this.
---@type integer
scriptorium.api = 3
