#include "scriptorium.h"

#include <stdlib.h>
#include <string.h>

#define IMPORT(name) __attribute__((import_module("scriptorium"), import_name(#name)))

IMPORT(log) void import_log(int level, const char *text, size_t length);
IMPORT(fail) void import_fail(const char *text, size_t length);
IMPORT(config) int import_config(char *buffer, size_t capacity);
IMPORT(kv_get) int import_kv_get(const char *key, size_t length, char *buffer, size_t capacity);
IMPORT(kv_keys) int import_kv_keys(const char *prefix, size_t prefix_length, const char *after, size_t after_length, int limit, char *buffer, size_t capacity);
IMPORT(counter_add) double import_counter_add(const char *name, size_t length, double n);
IMPORT(ratelimit_take) double import_ratelimit_take(const char *bucket, size_t length, double n, double rate, double burst);

// The agent drops the memory of a call at its end, so nothing is freed.
static void *allocate(size_t size) {
    void *memory = malloc(size ? size : 1);
    if (!memory) sc_fail("out of memory");
    return memory;
}

__attribute__((export_name("scriptorium_alloc"))) void *sc_export_alloc(size_t size) { return malloc(size ? size : 1); }

// ---- Texts

sc_text sc_string(const char *string) {
    return (sc_text){string, string ? strlen(string) : 0};
}

bool sc_equal(sc_text text, const char *string) {
    return text.length == strlen(string) && memcmp(text.ptr ? text.ptr : "", string, text.length) == 0;
}

bool sc_starts_with(sc_text text, sc_text prefix) {
    return prefix.length == 0 || (text.length >= prefix.length && memcmp(text.ptr, prefix.ptr, prefix.length) == 0);
}

sc_text sc_concat(sc_text a, sc_text b) {
    char *both = allocate(a.length + b.length);
    if (a.length) memcpy(both, a.ptr, a.length);
    if (b.length) memcpy(both + a.length, b.ptr, b.length);
    return (sc_text){both, a.length + b.length};
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// ---- Reading JSON. Functions that skip return where something ends, NULL if there is none.

enum { max_depth = 64 };

static char at(const char *p, const char *end) { return p < end ? *p : 0; }

static const char *blanks(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
    return p;
}

static long hex4(const char *p, const char *end) {
    long n = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at(p + i, end));
        if (digit < 0) return -1;
        n = n << 4 | digit;
    }
    return n;
}

static const char *skip_string(const char *p, const char *end) {
    if (at(p, end) != '"') return NULL;
    for (p++; p < end; p++) {
        if (*p == '"') return p + 1;
        if ((unsigned char)*p < ' ') return NULL;
        if (*p != '\\') continue;
        if (++p >= end || !strchr("\"\\/bfnrtu", *p) || *p == 0) return NULL;
        if (*p == 'u' && hex4(p + 1, end) < 0) return NULL;
    }
    return NULL;
}

static const char *skip_word(const char *p, const char *end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - p) >= length && memcmp(p, word, length) == 0 ? p + length : NULL;
}

static const char *digits(const char *p, const char *end) {
    const char *from = p;
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p > from ? p : NULL;
}

static const char *skip_number(const char *p, const char *end) {
    if (at(p, end) == '-') p++;
    const char *from = p;
    p = digits(p, end);
    if (!p || (p > from + 1 && *from == '0')) return NULL;
    if (at(p, end) == '.' && !(p = digits(p + 1, end))) return NULL;
    if (at(p, end) == 'e' || at(p, end) == 'E') {
        p++;
        if (at(p, end) == '+' || at(p, end) == '-') p++;
        p = digits(p, end);
    }
    return p;
}

static const char *skip(const char *p, const char *end, int depth);

static const char *skip_list(const char *p, const char *end, int depth, char close) {
    p = blanks(p + 1, end);
    if (at(p, end) == close) return p + 1;
    for (;;) {
        if (close == '}') {
            if (!(p = skip_string(p, end))) return NULL;
            p = blanks(p, end);
            if (at(p, end) != ':') return NULL;
            p = blanks(p + 1, end);
        }
        if (!(p = skip(p, end, depth - 1))) return NULL;
        p = blanks(p, end);
        if (at(p, end) == close) return p + 1;
        if (at(p, end) != ',') return NULL;
        p = blanks(p + 1, end);
    }
}

static const char *skip(const char *p, const char *end, int depth) {
    if (depth == 0) return NULL;
    switch (at(p, end)) {
    case '{': return skip_list(p, end, depth, '}');
    case '[': return skip_list(p, end, depth, ']');
    case '"': return skip_string(p, end);
    case 't': return skip_word(p, end, "true");
    case 'f': return skip_word(p, end, "false");
    case 'n': return skip_word(p, end, "null");
    }
    return skip_number(p, end);
}

// Where a value ends. Values are checked when they are made, so these two look for the end alone.
static const char *end_of_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++) {
        if (*p == '\\') p++;
    }
    return p < end ? p + 1 : end;
}

static const char *end_of(const char *p, const char *end) {
    if (at(p, end) == '"') return end_of_string(p, end);
    if (at(p, end) != '{' && at(p, end) != '[') {
        while (p < end && (unsigned char)*p > ' ' && *p != ',' && *p != '}' && *p != ']') p++;
        return p;
    }
    for (int depth = 0; p < end; p++) {
        if (*p == '"') p = end_of_string(p, end) - 1;
        else if (*p == '{' || *p == '[') depth++;
        else if ((*p == '}' || *p == ']') && --depth == 0) return p + 1;
    }
    return end;
}

static sc_json between(const char *from, const char *end) {
    return (sc_json){{from, end - from}};
}

// The value of a text that the agent has checked.
static sc_json trusted(const char *from, size_t length) {
    const char *end = from + length;
    from = blanks(from, end);
    while (end > from && (unsigned char)end[-1] <= ' ') end--;
    return between(from, end);
}

bool sc_parse(sc_text text, sc_json *value) {
    const char *end = text.ptr + text.length, *from = blanks(text.ptr, end);
    const char *to = skip(from, end, max_depth);
    if (!to || blanks(to, end) != end) return false;
    *value = between(from, to);
    return true;
}

static char first(sc_json value) { return value.raw.length ? *value.raw.ptr : 0; }

bool sc_exists(sc_json value) { return value.raw.length > 0; }
bool sc_is_null(sc_json value) { return first(value) == 0 || first(value) == 'n'; }
bool sc_is_array(sc_json value) { return first(value) == '['; }
bool sc_is_object(sc_json value) { return first(value) == '{'; }
bool sc_is_text(sc_json value) { return first(value) == '"'; }
bool sc_true(sc_json value) { return first(value) == 't'; }

static char *put_rune(char *out, long c) {
    if (c < 0x80) {
        *out++ = c;
    } else if (c < 0x800) {
        *out++ = 0xc0 | c >> 6;
        *out++ = 0x80 | (c & 63);
    } else if (c < 0x10000) {
        *out++ = 0xe0 | c >> 12;
        *out++ = 0x80 | (c >> 6 & 63);
        *out++ = 0x80 | (c & 63);
    } else {
        *out++ = 0xf0 | c >> 18;
        *out++ = 0x80 | (c >> 12 & 63);
        *out++ = 0x80 | (c >> 6 & 63);
        *out++ = 0x80 | (c & 63);
    }
    return out;
}

// Decodes what is between the quotes of a string.
static sc_text unquote(const char *p, const char *end) {
    if (!memchr(p, '\\', end - p)) return (sc_text){p, end - p};
    char *text = allocate(end - p), *out = text;
    while (p < end) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        char c = p[1];
        p += 2;
        if (c != 'u') {
            static const char names[] = "bfnrt", means[] = "\b\f\n\r\t";
            const char *name = strchr(names, c);
            *out++ = name && c ? means[name - names] : c;
            continue;
        }
        long rune = hex4(p, end), low;
        p += 4;
        if (rune >= 0xd800 && rune < 0xdc00 && at(p, end) == '\\' && at(p + 1, end) == 'u' &&
            (low = hex4(p + 2, end)) >= 0xdc00 && low < 0xe000) {
            rune = 0x10000 + ((rune - 0xd800) << 10) + (low - 0xdc00);
            p += 6;
        } else if (rune >= 0xd800 && rune < 0xe000) {
            rune = 0xfffd;
        }
        out = put_rune(out, rune);
    }
    return (sc_text){text, out - text};
}

sc_text sc_text_of(sc_json value) {
    if (!sc_is_text(value)) return (sc_text){0};
    return unquote(value.raw.ptr + 1, value.raw.ptr + value.raw.length - 1);
}

double sc_number_of(sc_json value, double otherwise) {
    if (first(value) != '-' && (first(value) < '0' || first(value) > '9')) return otherwise;
    char *string = allocate(value.raw.length + 1);
    memcpy(string, value.raw.ptr, value.raw.length);
    string[value.raw.length] = 0;
    return strtod(string, NULL);
}

sc_iter sc_iterate(sc_json value) {
    sc_iter iter = {0};
    if (!sc_is_array(value) && !sc_is_object(value)) return iter;
    iter.named = sc_is_object(value);
    iter.end = value.raw.ptr + value.raw.length;
    iter.at = blanks(value.raw.ptr + 1, iter.end);
    if (iter.at == iter.end - 1) iter.at = NULL;
    return iter;
}

bool sc_next(sc_iter *iter) {
    const char *p = iter->at, *end = iter->end;
    if (!p) return false;
    if (iter->named) {
        const char *quote = end_of_string(p, end);
        iter->name = unquote(p + 1, quote - 1);
        p = blanks(blanks(quote, end) + 1, end); // the colon
    }
    const char *to = end_of(p, end);
    iter->value = between(p, to);
    to = blanks(to, end);
    iter->at = at(to, end) == ',' ? blanks(to + 1, end) : NULL;
    return true;
}

sc_json sc_get(sc_json object, const char *name) {
    sc_json member = {{0}};
    if (!sc_is_object(object)) return member;
    for (sc_iter i = sc_iterate(object); sc_next(&i);) {
        if (sc_equal(i.name, name)) member = i.value;
    }
    return member;
}

// ---- The agent

void sc_log_info(sc_text message) { import_log(0, message.ptr, message.length); }
void sc_log_warn(sc_text message) { import_log(1, message.ptr, message.length); }
void sc_log_error(sc_text message) { import_log(2, message.ptr, message.length); }

void sc_fail_text(sc_text message) {
    import_fail(message.ptr, message.length);
    __builtin_trap(); // the agent has ended the call
}

void sc_fail(const char *message) { sc_fail_text(sc_string(message)); }

sc_json sc_config(void) {
    for (int length = 1024;;) {
        int capacity = length;
        char *buffer = allocate(capacity);
        length = import_config(buffer, capacity);
        if (length <= capacity) return trusted(buffer, length);
    }
}

sc_text sc_kv_get(sc_text key) {
    for (int length = 1024;;) {
        int capacity = length;
        char *buffer = allocate(capacity);
        length = import_kv_get(key.ptr, key.length, buffer, capacity);
        if (length < 0) return (sc_text){0};
        if (length <= capacity) return (sc_text){buffer, length};
    }
}

sc_json sc_kv_keys(sc_text prefix, sc_text after, int limit) {
    for (int length = 1024;;) {
        int capacity = length;
        char *buffer = allocate(capacity);
        length = import_kv_keys(prefix.ptr, prefix.length, after.ptr, after.length, limit, buffer, capacity);
        if (length <= capacity) return trusted(buffer, length);
    }
}

double sc_counter_add(sc_text name, double n) { return import_counter_add(name.ptr, name.length, n); }

double sc_rate_limit(sc_text bucket, double n, double rate, double burst) {
    return import_ratelimit_take(bucket.ptr, bucket.length, n, rate, burst);
}

// ---- Requests

static sc_json header(const sc_request *request, const char *name) {
    char *key = allocate(strlen(name) + 1);
    for (size_t i = 0; i <= strlen(name); i++) key[i] = lower(name[i]);
    return sc_get(request->headers, key);
}

sc_text sc_header(const sc_request *request, const char *name) {
    sc_json value = header(request, name);
    sc_iter i = sc_iterate(value);
    return sc_is_array(value) && sc_next(&i) ? sc_text_of(i.value) : sc_text_of(value);
}

static sc_text trim(const char *from, const char *end) {
    while (from < end && (*from == ' ' || *from == '\t')) from++;
    while (end > from && (end[-1] == ' ' || end[-1] == '\t')) end--;
    return (sc_text){from, end - from};
}

static const char *find(const char *p, const char *end, char c) {
    const char *found = p < end ? memchr(p, c, end - p) : NULL;
    return found ? found : end;
}

static sc_text cookie_in(sc_text header, const char *name) {
    const char *end = header.ptr + header.length;
    for (const char *p = header.ptr; p < end;) {
        const char *pair = find(p, end, ';'), *equals = find(p, pair, '=');
        if (equals < pair && sc_equal(trim(p, equals), name)) {
            sc_text value = trim(equals + 1, pair);
            if (value.length && *value.ptr == '"') value.ptr++, value.length--;
            if (value.length && value.ptr[value.length - 1] == '"') value.length--;
            return value;
        }
        p = pair + 1;
    }
    return (sc_text){0};
}

sc_text sc_cookie(const sc_request *request, const char *name) {
    sc_json value = header(request, "cookie");
    if (!sc_is_array(value)) return cookie_in(sc_text_of(value), name);
    for (sc_iter i = sc_iterate(value); sc_next(&i);) {
        sc_text found = cookie_in(sc_text_of(i.value), name);
        if (found.ptr) return found;
    }
    return (sc_text){0};
}

// Decodes + and %20. What is no escape stays.
static sc_text unescape(const char *p, const char *end) {
    char *text = allocate(end - p), *out = text;
    for (; p < end; p++) {
        int high = hex_digit(at(p + 1, end)), low = hex_digit(at(p + 2, end));
        if (*p == '%' && high >= 0 && low >= 0) {
            *out++ = high << 4 | low;
            p += 2;
        } else {
            *out++ = *p == '+' ? ' ' : *p;
        }
    }
    return (sc_text){text, out - text};
}

sc_text sc_query_param(const sc_request *request, const char *name) {
    const char *end = request->query.ptr + request->query.length;
    for (const char *p = request->query.ptr; p < end;) {
        const char *pair = find(p, end, '&'), *equals = find(p, pair, '=');
        if (pair > p && sc_equal(unescape(p, equals), name)) {
            return equals < pair ? unescape(equals + 1, pair) : sc_string("");
        }
        p = pair + 1;
    }
    return (sc_text){0};
}

static sc_request read_request(sc_json json) {
    sc_request r = {.json = json};
    const struct {
        const char *name;
        sc_text *to;
    } fields[] = {
        {"method", &r.method}, {"scheme", &r.scheme}, {"host", &r.host}, {"path", &r.path},
        {"raw_path", &r.raw_path}, {"query", &r.query}, {"remote_addr", &r.remote_addr}, {"body", &r.body},
        {"client_certificate", &r.client_certificate}, {"route", &r.route}, {"tenant", &r.tenant},
    };
    if (!sc_is_object(json)) return r;
    for (sc_iter i = sc_iterate(json); sc_next(&i);) {
        if (sc_equal(i.name, "headers")) r.headers = i.value;
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            if (sc_equal(i.name, fields[f].name)) *fields[f].to = sc_text_of(i.value);
        }
    }
    return r;
}

// ---- Writing JSON

typedef struct {
    char *ptr;
    size_t length, capacity;
} buffer;

static void put(buffer *b, const char *bytes, size_t length) {
    if (b->capacity - b->length < length) {
        b->capacity = 2 * b->capacity + length;
        if (!(b->ptr = realloc(b->ptr, b->capacity))) sc_fail("out of memory");
    }
    if (length) memcpy(b->ptr + b->length, bytes, length);
    b->length += length;
}

static void put_string(buffer *b, const char *string) { put(b, string, strlen(string)); }

// How many bytes the rune at p has, 0 if it is not UTF-8.
static int rune_length(const unsigned char *p, const unsigned char *end) {
    if (*p < 0x80) return 1;
    int n = *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    if (n == 0 || end - p < n) return 0;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

static void put_quoted(buffer *b, sc_text text) {
    const unsigned char *p = (const unsigned char *)text.ptr, *end = p + text.length, *plain = p;
    put(b, "\"", 1);
    while (p < end) {
        int n = rune_length(p, end);
        if (n > 1 || (n == 1 && *p >= ' ' && *p != '"' && *p != '\\')) {
            p += n;
            continue;
        }
        put(b, (const char *)plain, p - plain);
        if (n == 0) {
            put_string(b, "\xef\xbf\xbd");
        } else if (*p < ' ') {
            char escape[] = {'\\', 'u', '0', '0', '0' + (*p >> 4), "0123456789abcdef"[*p & 15]};
            put(b, escape, 6);
        } else {
            char escape[] = {'\\', *p};
            put(b, escape, 2);
        }
        plain = ++p;
    }
    put(b, (const char *)plain, p - plain);
    put(b, "\"", 1);
}

static void put_integer(buffer *b, long long n) {
    char digits[24], *p = digits + sizeof digits;
    bool negative = n < 0;
    unsigned long long rest = negative ? -(unsigned long long)n : (unsigned long long)n;
    do *--p = '0' + rest % 10;
    while (rest /= 10);
    if (negative) *--p = '-';
    put(b, p, digits + sizeof digits - p);
}

// A member of a list that is written at the end: a name with values. The last member comes first.
struct sc_pair {
    sc_text name;
    buffer values; // JSON, separated by commas
    int count;
    sc_pair *next;
};

static sc_pair *push(sc_pair **list, const char *name) {
    sc_pair *pair = allocate(sizeof *pair);
    *pair = (sc_pair){.name = sc_string(name)};
    while (*list) list = &(*list)->next;
    return *list = pair;
}

// The member with the name: a decision may have each header once, whatever the case of its name.
static sc_pair *member(sc_pair **list, const char *name, bool any_case) {
    for (sc_pair *pair = *list; pair; pair = pair->next) {
        size_t i = 0;
        while (i < pair->name.length && (any_case ? lower(pair->name.ptr[i]) == lower(name[i]) : pair->name.ptr[i] == name[i])) i++;
        if (i == pair->name.length && name[i] == 0) return pair;
    }
    return push(list, name);
}

static void add_text(sc_pair *pair, sc_text text) {
    if (pair->count++) put(&pair->values, ",", 1);
    put_quoted(&pair->values, text);
}

static void clear(sc_pair *pair) {
    pair->count = 0;
    pair->values.length = 0;
}

static void set_header(sc_pair **list, const char *name, sc_text value) {
    sc_pair *pair = member(list, name, true);
    clear(pair);
    add_text(pair, value);
}

// ---- Decisions

void sc_deny(sc_decision *d, int status, sc_text body) {
    d->denied = true;
    d->status = status;
    d->body = body;
}

void sc_redirect(sc_decision *d, sc_text location) { d->redirect = location; }
void sc_set_header(sc_decision *d, const char *name, sc_text value) { set_header(&d->set, name, value); }
void sc_append_header(sc_decision *d, const char *name, sc_text value) { add_text(member(&d->append, name, true), value); }
void sc_remove_header(sc_decision *d, const char *name) { push(&d->remove, name); }
void sc_set_response_header(sc_decision *d, const char *name, sc_text value) { set_header(&d->response_set, name, value); }
void sc_append_response_header(sc_decision *d, const char *name, sc_text value) { add_text(member(&d->response_append, name, true), value); }
void sc_remove_response_header(sc_decision *d, const char *name) { push(&d->response_remove, name); }
void sc_vary(sc_decision *d, const char *header) { push(&d->vary, header); }

static void put_name(buffer *b, const char *name) {
    if (b->length && b->ptr[b->length - 1] != '{') put(b, ",", 1);
    put_quoted(b, sc_string(name));
    put(b, ":", 1);
}

static void put_text(buffer *b, const char *name, sc_text text) {
    if (!text.length) return;
    put_name(b, name);
    put_quoted(b, text);
}

static void put_number(buffer *b, const char *name, long long n) {
    put_name(b, name);
    put_integer(b, n);
}

static void put_false(buffer *b, const char *name) {
    put_name(b, name);
    put_string(b, "false");
}

void sc_set_cookie(sc_decision *d, sc_cookie_options c) {
    buffer *b = &push(&d->cookies, "")->values;
    put(b, "{", 1);
    put_name(b, "name");
    put_quoted(b, sc_string(c.name));
    put_text(b, "value", c.value);
    put_text(b, "path", sc_string(c.path));
    put_text(b, "domain", sc_string(c.domain));
    if (c.max_age || c.expired) put_number(b, "max_age", c.expired ? 0 : c.max_age);
    if (c.insecure) put_false(b, "secure");
    if (c.scripts) put_false(b, "http_only");
    put_text(b, "same_site", sc_string(c.same_site));
    put(b, "}", 1);
}

void sc_rate_limit_headers(sc_decision *d, int limit, int remaining, int reset_seconds) {
    d->rate_limit = NULL;
    buffer *b = &push(&d->rate_limit, "")->values;
    put(b, "{", 1);
    put_number(b, "limit", limit);
    put_number(b, "remaining", remaining);
    put_number(b, "reset", reset_seconds);
    put(b, "}", 1);
}

void sc_metadata(sc_decision *d, const char *name, sc_text text) {
    sc_pair *pair = member(&d->metadata, name, false);
    clear(pair);
    add_text(pair, text);
}

void sc_metadata_json(sc_decision *d, const char *name, sc_json value) {
    sc_pair *pair = member(&d->metadata, name, false);
    clear(pair);
    pair->count = 1;
    if (sc_exists(value)) put(&pair->values, value.raw.ptr, value.raw.length);
    else put_string(&pair->values, "null");
}

// Numbers are exact to six decimal places: printf would make a module four times as large.
void sc_metadata_number(sc_decision *d, const char *name, double n) {
    if (!(n > -9e12 && n < 9e12)) sc_fail("sc_metadata_number: the number is too large");
    buffer b = {0};
    long long millionths = (long long)(n * 1e6 + (n < 0 ? -0.5 : 0.5));
    if (millionths < 0) {
        put(&b, "-", 1);
        millionths = -millionths;
    }
    put_integer(&b, millionths / 1000000);
    long rest = millionths % 1000000;
    if (rest) {
        char decimals[7] = ".";
        int length = 7;
        for (int i = 6; i > 0; i--, rest /= 10) decimals[i] = '0' + rest % 10;
        while (decimals[length - 1] == '0') length--;
        put(&b, decimals, length);
    }
    sc_metadata_json(d, name, (sc_json){{b.ptr, b.length}});
}

static void put_members(buffer *b, const char *name, sc_pair *list) {
    if (!list) return;
    put_name(b, name);
    put(b, "{", 1);
    for (; list; list = list->next) {
        put_name(b, list->name.ptr);
        if (list->count > 1) put(b, "[", 1);
        put(b, list->values.ptr, list->values.length);
        if (list->count > 1) put(b, "]", 1);
    }
    put(b, "}", 1);
}

// The names of a list, or its values.
static void put_list(buffer *b, const char *name, sc_pair *list, bool names) {
    if (!list) return;
    put_name(b, name);
    for (const char *before = "["; list; list = list->next, before = ",") {
        put(b, before, 1);
        if (names) put_quoted(b, list->name);
        else put(b, list->values.ptr, list->values.length);
    }
    put(b, "]", 1);
}

static void put_headers(buffer *b, const char *name, sc_pair *set, sc_pair *append, sc_pair *removed) {
    if (!set && !append && !removed) return;
    put_name(b, name);
    put(b, "{", 1);
    put_members(b, "set", set);
    put_members(b, "append", append);
    put_list(b, "remove", removed, true);
    put(b, "}", 1);
}

static buffer decision_json(const sc_decision *d) {
    buffer b = {0};
    put(&b, "{", 1);
    if (d->denied) put_false(&b, "allow");
    if (d->status) put_number(&b, "status", d->status);
    put_text(&b, "body", d->body);
    put_text(&b, "redirect", d->redirect);
    put_headers(&b, "headers", d->set, d->append, d->remove);
    put_headers(&b, "response_headers", d->response_set, d->response_append, d->response_remove);
    put_list(&b, "cookies", d->cookies, false);
    put_list(&b, "vary", d->vary, true);
    if (d->rate_limit) {
        put_name(&b, "rate_limit");
        put(&b, d->rate_limit->values.ptr, d->rate_limit->values.length);
    }
    put_text(&b, "upstream", d->upstream);
    put_text(&b, "path", d->path);
    if (d->query.ptr) {
        put_name(&b, "query");
        put_quoted(&b, d->query);
    }
    put_members(&b, "metadata", d->metadata);
    put(&b, "}", 1);
    return b;
}

// ---- What the module exports

static uint64_t result(const char *text, size_t length) {
    return length ? (uint64_t)(uintptr_t)text << 32 | length : 0;
}

uint64_t sc_call(char *argument, size_t length, void (*decide)(const sc_request *, sc_decision *)) {
    sc_request request = read_request(trusted(argument, length));
    sc_decision decision = {0};
    decide(&request, &decision);
    if (decision.none) return 0;
    buffer b = decision_json(&decision);
    return result(b.ptr, b.length);
}

uint64_t sc_call_json(char *argument, size_t length, sc_text (*answer)(sc_json)) {
    sc_text text = answer(trusted(argument, length));
    return result(text.ptr, text.length);
}
