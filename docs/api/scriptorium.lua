---@meta scriptorium
-- The API of scripts beside Lua 5.1: the one definition of it. The Lua language server and scriptctl lint read this
-- file, and `make generate` writes the signatures and the tables of fields in docs/api from it.

---A request, as gateways send it.
---@class Request
---@field method string such as `GET`
---@field scheme string such as `https`
---@field host string such as `shop.example`
---@field path string such as `/cart`, without the query. Gateways clean it: `/x/..//%61dmin` is `/admin`
---@field raw_path? string the path as the client sent it, if `path` differs
---@field query string what follows `?`, unchanged
---@field query_params table<string, string|string[]> by name; the engine parses `query` at the first use
---@field headers table<string, string|string[]> by name in lower case; a list if a header came more than once
---@field cookies table<string, string> by name; the engine parses `headers.cookie` at the first use
---@field remote_addr string the client's IP address without a port, as the gateway knows it
---@field body? string if the gateway sends it
---@field client_certificate? string the subject of the client's certificate, if the gateway sends it
---@field route? string the gateway's name for the route, if it sends one
---@field params? table<string, string> settings of the gateway for this call, by name
---@field tenant string the tenant of the script

---Changes of headers.
---@class HeaderChanges
---@field set? table<string, string|number|(string|number)[]> new values, by name
---@field append? table<string, string|number|(string|number)[]> more values, by name
---@field remove? string[] names

---A cookie for the client.
---@class Cookie
---@field name string
---@field value? string|number default: empty
---@field path? string default: `/`
---@field domain? string
---@field max_age? integer seconds; 0 deletes the cookie
---@field secure? boolean default: true
---@field http_only? boolean default: true
---@field same_site? "lax"|"strict"|"none" default: `lax`

---The state of a rate limit, for the `RateLimit-*` headers.
---@class RateLimit
---@field limit? integer default: 0
---@field remaining? integer default: 0
---@field reset? integer seconds until the limit is whole again

---What a script may return for a request.
---@class Decision
---@field allow? boolean false: the gateway answers in the upstream's place
---@field status? integer of the gateway's answer, 200 to 599; default: 403
---@field body? string of the gateway's answer
---@field redirect? string the `Location` of the gateway's answer, with the status 302 or `status`
---@field headers? HeaderChanges of the request to the upstream
---@field response_headers? HeaderChanges of the response to the client
---@field cookies? Cookie[] for the client
---@field vary? string[] names of request headers that the answer depends on
---@field rate_limit? RateLimit adds `RateLimit-*` headers; with the status 429 also `Retry-After`
---@field upstream? string where the request goes, by a name that the gateway knows
---@field path? string replaces the path of the request
---@field query? string replaces the query of the request
---@field metadata? table<string, any> for the gateway's own use

---The response to a request, as gateways pass it to on_response.
---@class Response
---@field status integer such as `200`
---@field headers table<string, string|string[]> by name in lower case, with the changes of the request's decision
---@field body? string if the gateway sends it; bytes that are not UTF-8 become U+FFFD

---What on_response may return.
---@class Outcome
---@field allow? boolean false: the gateway answers in the upstream's place, and nothing of the response remains
---@field status? integer of the response, or of the gateway's answer; 200 to 599
---@field body? string of the response, or of the gateway's answer
---@field redirect? string the `Location` of the gateway's answer, with the status 302 or `status`
---@field response_headers? HeaderChanges of the response
---@field cookies? Cookie[] for the client
---@field vary? string[] names of request headers that the response depends on
---@field rate_limit? RateLimit adds `RateLimit-*` headers
---@field metadata? table<string, any> for the gateway's own use

---The settings of the script: `spec.config` of its manifest.
---@type table<string, any>
config = {}

---Returns a header of the request of this call. The case of the name does not matter.
---@param name string
---@return string? value the first one, if the header came more than once
function get_request_header(name) end

---Logs a line at the level info, as log.info does.
---@param message any
---@param fields? table<string, any>
function log_info(message, fields) end

---Lines in the agent's log.
---@class log
log = {}

---Logs a line at the level info.
---@param message any
---@param fields? table<string, any>
function log.info(message, fields) end

---Logs a line at the level warn.
---@param message any
---@param fields? table<string, any>
function log.warn(message, fields) end

---Logs a line at the level error.
---@param message any
---@param fields? table<string, any>
function log.error(message, fields) end

---JSON text from values, and values from JSON text.
---@class json
json = {}

---The null of JSON, in arrays and for writing. It is equal only to itself, and true in a condition.
---@class json.null
json.null = {}

---Returns the value as JSON.
---@param value any
---@return string
function json.encode(value) end

---Returns the value of JSON text. Raises an error if the text is not JSON.
---@param text string
---@return any
function json.decode(text) end

---Marks a table as an array, or returns a new one.
---@generic T: table
---@param t? T
---@return T
function json.array(t) end

---Base64, in both alphabets.
---@class base64
base64 = {}

---Returns the text in base64 with + and /, padded.
---@param text string
---@return string
function base64.encode(text) end

---Returns the text in base64 with - and _, without padding.
---@param text string
---@return string
function base64.encode_url(text) end

---Reads base64 with + and /.
---@param text string
---@return string? decoded
---@return string? problem
function base64.decode(text) end

---Reads base64 with - and _.
---@param text string
---@return string? decoded
---@return string? problem
function base64.decode_url(text) end

---Regular expressions with the syntax of RE2, in linear time.
---@class re
re = {}

---Reports whether the pattern matches anywhere in the text.
---@param text string
---@param pattern string
---@return boolean
function re.test(text, pattern) end

---Returns the captures of the first match, or the whole match if the pattern has none.
---@param text string
---@param pattern string
---@param from? integer
---@return string|false|nil ...
function re.match(text, pattern, from) end

---Returns where the first match begins and ends, and its captures.
---@param text string
---@param pattern string
---@param from? integer
---@return integer? first
---@return integer? last
---@return string|false ...
function re.find(text, pattern, from) end

---Replaces all matches, or the first ones.
---@param text string
---@param pattern string
---@param replacement string|number|table|fun(...: string|false): string|number|false|nil
---@param most? integer
---@return string
---@return integer count
function re.gsub(text, pattern, replacement, most) end

---Returns a pattern that matches the text literally.
---@param text string
---@return string pattern
function re.escape(text) end

---@alias crypto.encoding "hex"|"base64"|"base64url"|"raw"

---Digests, HMAC, random bytes and UUIDs.
---@class crypto
crypto = {}

---Returns the SHA-256 digest of the text.
---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.sha256(text, encoding) end

---Returns the SHA-512 digest of the text.
---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.sha512(text, encoding) end

---Returns the SHA-1 digest of the text.
---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.sha1(text, encoding) end

---Returns the MD5 digest of the text.
---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.md5(text, encoding) end

---Returns the HMAC of the text.
---@param algorithm "sha256"|"sha512"|"sha1"|"md5"
---@param key string
---@param text string
---@param encoding? crypto.encoding
---@return string
function crypto.hmac(algorithm, key, text, encoding) end

---Returns random bytes that nobody can guess.
---@param n integer 1 to 1,024
---@param encoding? crypto.encoding
---@return string
function crypto.random(n, encoding) end

---Returns a UUID: of version 4, which is random, or of version 7, which sorts by time.
---@param version? 4|7
---@return string
function crypto.uuid(version) end

---Reports whether two texts are equal, in a time that does not depend on where they differ.
---@param a string
---@param b string
---@return boolean
function crypto.equal(a, b) end

---Returns the text in hexadecimal digits.
---@param text string
---@return string
function crypto.hex(text) end

---Reads hexadecimal digits.
---@param text string
---@return string? decoded
---@return string? problem
function crypto.unhex(text) end

---@alias time.format "rfc3339"|"http"

---The clock, dates and durations.
---@class time
time = {}

---Returns the seconds since 1970.
---@return number seconds
function time.now() end

---Returns the seconds since the process that runs the script started. This clock never jumps.
---@return number seconds
function time.monotonic() end

---Returns a time as text.
---@param seconds number
---@param format? time.format
---@return string
function time.format(seconds, format) end

---Reads a time.
---@param text string
---@param format? time.format
---@return number? seconds
---@return string? problem
function time.parse(text, format) end

---Reads a duration, such as `1h30m` or `250ms`.
---@param text string
---@return number? seconds
---@return string? problem
function time.duration(text) end

---The key-value data of the tenant.
---@class kv
kv = {}

---Returns the content of a value, or nil if there is no such key.
---@param key string
---@return string? content
function kv.get(key) end

---Returns the content of a value that is JSON, decoded, or nil if there is no such key.
---@param key string
---@return any
function kv.json(key) end

---Returns the keys that begin with the prefix, in order and at most 1,000.
---@param prefix? string
---@param after? string only keys after this one
---@return string[] keys
function kv.keys(prefix, after) end

---Counters of the tenant on this agent, which outlive a call.
---@class counter
counter = {}

---Adds to a counter, and returns its new value.
---@param name string
---@param n? number default: 1
---@return number
function counter.add(name, n) end

---Returns the value of a counter.
---@param name string
---@return number
function counter.get(name) end

---@class ratelimit.options
---@field rate number tokens a second: above 0, at most 1e9
---@field burst? number tokens that the bucket holds: above 0, at most 1e9. Default: `rate`, at least 1
---@field cost? number tokens that this call takes, from 0 to `burst`. Default: 1

---Token buckets of the tenant on this agent.
---@class ratelimit
ratelimit = {}

---Takes tokens from a bucket. If there are too few, it takes none.
---@param key string
---@param options ratelimit.options
---@return boolean allowed
---@return number seconds until there are enough tokens
function ratelimit.allow(key, options) end

---The API itself.
---@class scriptorium
scriptorium = {}

---The version of the API on the agent that runs the call.
---@type integer
scriptorium.api = 3
