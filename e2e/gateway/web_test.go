package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestWebCallee: a denial is an answer, and a gateway without a decision has failed.
func TestWebCallee(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/shop":
			r.Header.Set("X-User", "ann")
			backend("stable").ServeHTTP(rw, r)
		case "/admin":
			http.Error(rw, "not you", http.StatusForbidden)
		default:
			http.Error(rw, "no decision", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	for name, want := range map[string]string{"e2e/shop": "200 stable for ann", "e2e/admin": "403 not you"} {
		if got, err := newWebCallee(server.Client(), server.URL+"/", name).call(t.Context()); err != nil || got.Content != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	_, err := newWebCallee(server.Client(), server.URL, "e2e/other").call(t.Context())
	if e, ok := errors.AsType[*script.Error](err); !ok || e.Kind != script.Unavailable {
		t.Errorf("no decision: %v", err)
	}
}
