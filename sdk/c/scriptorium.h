// Scripts for Scriptorium in C: see README.md. Compile scriptorium.c with yours.
#ifndef SCRIPTORIUM_H
#define SCRIPTORIUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A text: length bytes of UTF-8, without a 0 at the end. If ptr is NULL, there is none. What the functions
// here return stays until the call ends.
typedef struct {
    const char *ptr;
    size_t length;
} sc_text;

sc_text sc_string(const char *string);          // the text of a C string
bool sc_equal(sc_text text, const char *string);
bool sc_starts_with(sc_text text, sc_text prefix);
sc_text sc_concat(sc_text a, sc_text b);

// ---- JSON

// A JSON value as text, which the functions read when they are called. A value that is missing has no text, and
// reads as null.
typedef struct {
    sc_text raw;
} sc_json;

bool sc_parse(sc_text text, sc_json *value);    // false: text is not a JSON value
bool sc_exists(sc_json value);
bool sc_is_null(sc_json value);                 // null or missing
bool sc_is_array(sc_json value);
bool sc_is_object(sc_json value);
bool sc_is_text(sc_json value);
bool sc_true(sc_json value);
sc_text sc_text_of(sc_json value);              // a string; none for all other values
double sc_number_of(sc_json value, double otherwise);
sc_json sc_get(sc_json object, const char *name); // if a name comes twice, the last one counts

// Go through an array or an object:
//     for (sc_iter i = sc_iterate(routes); sc_next(&i);) use(i.name, i.value);
typedef struct {
    sc_text name; // of a member of an object
    sc_json value;
    const char *at, *end;
    bool named;
} sc_iter;

sc_iter sc_iterate(sc_json value);
bool sc_next(sc_iter *iter);

// ---- What the agent does. If it cannot do what a function asks, the call ends with an error and the function
// does not return.

void sc_log_info(sc_text message);
void sc_log_warn(sc_text message);
void sc_log_error(sc_text message);
_Noreturn void sc_fail(const char *message);    // ends the call with an error of the kind SCRIPT
_Noreturn void sc_fail_text(sc_text message);
sc_json sc_config(void);                        // spec.config of the manifest, an object
sc_text sc_kv_get(sc_text key);                 // ptr is NULL if there is no such key
sc_json sc_kv_keys(sc_text prefix, sc_text after, int limit); // an array
double sc_counter_add(sc_text name, double n);  // returns what the counter is then
// Takes n tokens from a bucket that holds up to burst tokens and gets rate tokens a second. 0: taken; else the
// seconds until there are enough.
double sc_rate_limit(sc_text bucket, double n, double rate, double burst);

// ---- Requests

// A text that the gateway does not send has no ptr.
typedef struct {
    sc_text method, scheme, host, path, raw_path, query, remote_addr, body, client_certificate, route, tenant;
    sc_json headers; // by names in lower case; an array if a header came more than once
    sc_json json;    // the whole request
} sc_request;

sc_text sc_header(const sc_request *request, const char *name);      // the first one
sc_text sc_cookie(const sc_request *request, const char *name);
sc_text sc_query_param(const sc_request *request, const char *name); // decoded

// ---- Decisions

typedef struct sc_pair sc_pair;

// Without a change, a decision sends the request on as it is. Use the functions below.
typedef struct {
    bool none; // no decision
    bool denied;
    int status;
    sc_text body, redirect, upstream, path, query;
    sc_pair *set, *append, *remove;                            // headers of the request
    sc_pair *response_set, *response_append, *response_remove; // headers of the response
    sc_pair *cookies, *vary, *rate_limit, *metadata;
} sc_decision;

// A cookie for the client. What is 0 has the default of Scriptorium: path /, secure, HTTP only, same site lax.
typedef struct {
    const char *name;
    sc_text value;
    const char *path, *domain, *same_site;
    int max_age;  // seconds; counts if it is not 0, or expired is set
    bool expired; // deletes the cookie
    bool insecure; // also over plain HTTP
    bool scripts;  // also for scripts in the browser
} sc_cookie_options;

void sc_deny(sc_decision *decision, int status, sc_text body);
void sc_redirect(sc_decision *decision, sc_text location); // status 302, unless decision->status says another one
void sc_set_header(sc_decision *decision, const char *name, sc_text value);
void sc_append_header(sc_decision *decision, const char *name, sc_text value);
void sc_remove_header(sc_decision *decision, const char *name);
void sc_set_response_header(sc_decision *decision, const char *name, sc_text value);
void sc_append_response_header(sc_decision *decision, const char *name, sc_text value);
void sc_remove_response_header(sc_decision *decision, const char *name);
void sc_set_cookie(sc_decision *decision, sc_cookie_options cookie);
void sc_vary(sc_decision *decision, const char *header);
void sc_rate_limit_headers(sc_decision *decision, int limit, int remaining, int reset_seconds);
void sc_metadata(sc_decision *decision, const char *name, sc_text text);
void sc_metadata_json(sc_decision *decision, const char *name, sc_json value);
void sc_metadata_number(sc_decision *decision, const char *name, double n);

// ---- What the module exports

// Has a function decide about requests: void decide(const sc_request *request, sc_decision *decision).
#define SC_HANDLE(decide)                                                                 \
    __attribute__((export_name("handle"))) uint64_t sc_export(char *argument, size_t length) { \
        return sc_call(argument, length, decide);                                         \
    }

// Has a function answer calls with any argument: sc_text answer(sc_json argument), which returns JSON, or no text
// for no result.
#define SC_HANDLE_JSON(answer)                                                            \
    __attribute__((export_name("handle"))) uint64_t sc_export(char *argument, size_t length) { \
        return sc_call_json(argument, length, answer);                                    \
    }

uint64_t sc_call(char *argument, size_t length, void (*decide)(const sc_request *, sc_decision *));
uint64_t sc_call_json(char *argument, size_t length, sc_text (*answer)(sc_json));

#endif
