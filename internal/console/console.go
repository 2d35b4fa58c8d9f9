// Package console serves the console, a web application for the scripts of a registry. It holds sessions and passes the
// browser's Connect calls on to the registry's gRPC services with the credentials of the session. It decides nothing: what
// a person may see and do is the registry's access policy.
package console

import (
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"
)

// Config is what a console needs.
type Config struct {
	// Registry is a connection without credentials per call.
	Registry grpc.ClientConnInterface
	// Plaintext says that the connection to the registry is not encrypted, and may have tokens nevertheless.
	Plaintext bool
	// Assets are the files of the web application, with index.html for each page.
	Assets fs.FS
	// Code, if not empty, signs in without a token: it stands for the identity of the connection itself. It works once.
	Code string
	// Secure says that the browser's connection is encrypted. Else the console is for this machine alone.
	Secure bool
	Clock  func() time.Time
	Log    *slog.Logger
}

// New returns the console.
func New(cfg Config) http.Handler {
	s := newSessions(cfg.Clock)
	signIn := &signIn{cfg: cfg, sessions: s}
	mux := http.NewServeMux()
	mux.Handle("POST /session", http.HandlerFunc(signIn.begin))
	mux.Handle("GET /session", http.HandlerFunc(signIn.show))
	mux.Handle("DELETE /session", http.HandlerFunc(signIn.end))
	for path, handler := range services(cfg.Registry) {
		mux.Handle("POST "+path, s.require(handler))
	}
	mux.Handle("GET /", serveFiles(cfg.Assets))
	return headers(cfg.Secure, http.NewCrossOriginProtection().Handler(mux))
}
