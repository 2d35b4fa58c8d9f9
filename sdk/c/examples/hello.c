// Allows each request, and sets a header.
#include "scriptorium.h"

static void decide(const sc_request *request, sc_decision *decision) {
    sc_set_header(decision, "x-hello", sc_concat(sc_string("hello "), request->remote_addr));
}

SC_HANDLE(decide)
