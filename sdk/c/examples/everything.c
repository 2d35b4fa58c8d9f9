// Calls each function of the SDK, by the path of the request. The tests run it.
#include "scriptorium.h"

// Returns what the SDK reads from a request.
static void echo(const sc_request *r, sc_decision *d) {
    sc_metadata(d, "method", r->method);
    sc_metadata(d, "scheme", r->scheme);
    sc_metadata(d, "host", r->host);
    sc_metadata(d, "path", r->path);
    sc_metadata(d, "query", r->query);
    sc_metadata(d, "remote_addr", r->remote_addr);
    sc_metadata(d, "body", r->body);
    sc_metadata(d, "tenant", r->tenant);
    sc_metadata(d, "header", sc_header(r, "X-Name"));
    sc_metadata(d, "cookie", sc_cookie(r, "session"));
    sc_metadata(d, "param", sc_query_param(r, "q"));
    int values = 0;
    for (sc_iter i = sc_iterate(sc_get(r->headers, "x-list")); sc_next(&i);) values++;
    sc_metadata_number(d, "values", values);
    sc_json mode = sc_get(sc_get(r->json, "params"), "mode");
    sc_metadata(d, "mode", sc_is_text(mode) ? sc_text_of(mode) : sc_string("none"));
}

static void change(sc_decision *d) {
    d->upstream = sc_string("cart");
    d->path = sc_string("/v2");
    d->query = sc_string("a=1");
    sc_set_header(d, "x-user", sc_string("ann"));
    sc_set_header(d, "X-User", sc_string("\"bob\""));
    sc_append_header(d, "via", sc_string("a"));
    sc_append_header(d, "via", sc_string("b"));
    sc_remove_header(d, "x-old");
    sc_set_response_header(d, "x-frame-options", sc_string("DENY"));
    sc_append_response_header(d, "link", sc_string("<a>"));
    sc_remove_response_header(d, "server");
    sc_set_cookie(d, (sc_cookie_options){
        .name = "session", .value = sc_string("42"), .path = "/a", .expired = true, .same_site = "strict", .insecure = true,
    });
    sc_vary(d, "accept");
    sc_rate_limit_headers(d, 10, 9, 1);
    sc_metadata(d, "variant", sc_string("b\n\x01\xc3\xa9"));
}

// Asks the agent.
static bool ask(const sc_request *r, sc_decision *d) {
    if (sc_equal(r->path, "/config")) {
        sc_metadata_json(d, "config", sc_config());
    } else if (sc_equal(r->path, "/kv")) {
        sc_text content = sc_kv_get(r->body);
        sc_metadata(d, content.ptr ? "content" : "missing", content.ptr ? content : r->body);
    } else if (sc_equal(r->path, "/keys")) {
        for (sc_iter i = sc_iterate(sc_kv_keys(r->body, r->query, 2)); sc_next(&i);) {
            sc_text key = sc_concat(sc_text_of(i.value), (sc_text){"", 1});
            sc_metadata(d, key.ptr, sc_string("there"));
        }
    } else if (sc_equal(r->path, "/counter")) {
        sc_metadata_number(d, "counter", sc_counter_add(r->body, 2.5));
    } else if (sc_equal(r->path, "/ratelimit")) {
        double wait = sc_rate_limit(r->body, 1, 10, 20);
        if (wait == 0) return true;
        sc_deny(d, 429, sc_string("later"));
        sc_rate_limit_headers(d, 20, 0, __builtin_ceil(wait));
    } else {
        return false;
    }
    return true;
}

static void decide(const sc_request *r, sc_decision *d) {
    if (sc_equal(r->path, "/nothing")) {
        d->none = true;
    } else if (sc_equal(r->path, "/log")) {
        sc_log_info(r->body);
        sc_log_warn(r->body);
        sc_log_error(r->body);
    } else if (sc_equal(r->path, "/fail") || sc_equal(r->path, "/error")) {
        sc_fail_text(r->body);
    } else if (sc_equal(r->path, "/deny")) {
        sc_deny(d, 403, r->body);
    } else if (sc_equal(r->path, "/redirect")) {
        sc_redirect(d, sc_string("/login"));
        d->status = 303;
    } else if (sc_equal(r->path, "/decision")) {
        change(d);
    } else if (!ask(r, d)) {
        echo(r, d);
    }
}

SC_HANDLE(decide)
