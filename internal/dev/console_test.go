package dev_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/dev"
)

// TestTheConsole: dev says where its console is, and the code that it shows signs in, once.
func TestTheConsole(t *testing.T) {
	s := start(t, t.TempDir(), shortTempDir(t), func(cfg *dev.Config) { cfg.Console = "127.0.0.1:0" })
	found := regexp.MustCompile(`console +(http://127\.0\.0\.1:\d+); sign in with the code (\S+)$`).FindStringSubmatch(s.await(`^  console `))
	if found == nil {
		t.Fatal("the banner does not say how to sign in")
	}
	signIn := func(code string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, found[1]+"/session", strings.NewReader(`{"code":"`+code+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := signIn(found[2]); got != http.StatusNoContent {
		t.Fatalf("the code of the banner: %d", got)
	}
	next := regexp.MustCompile(`is (\S+)$`).FindStringSubmatch(s.await(`^console: somebody signed in; the code for the next sign-in is `))
	if got := signIn(found[2]); got != http.StatusUnauthorized {
		t.Errorf("the code works again: %d", got)
	}
	if got := signIn(next[1]); got != http.StatusNoContent {
		t.Errorf("the next code: %d", got)
	}
}
