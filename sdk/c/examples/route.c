// Chooses the upstream of a request, by the path and a header: see ../../README.md.
#include "scriptorium.h"

// The first prefix that fits wins, so the longer ones come first in the config.
static sc_text choose(const sc_request *request, sc_json config) {
    for (sc_iter i = sc_iterate(sc_get(config, "routes")); sc_next(&i);) {
        if (sc_starts_with(request->path, sc_text_of(sc_get(i.value, "prefix")))) {
            return sc_text_of(sc_get(i.value, "upstream"));
        }
    }
    if (sc_equal(sc_header(request, "x-beta"), "yes")) return sc_text_of(sc_get(config, "beta"));
    return sc_text_of(sc_get(config, "default"));
}

static void decide(const sc_request *request, sc_decision *decision) {
    decision->upstream = choose(request, sc_config());
    // A value of the tenant moves an upstream without a new version.
    sc_text moved = sc_kv_get(sc_concat(sc_string("upstreams/"), decision->upstream));
    if (moved.ptr) decision->upstream = moved;
}

SC_HANDLE(decide)
