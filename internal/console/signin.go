package console

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

const (
	maxSecret     = 16 << 10
	checkTimeout  = 10 * time.Second
	maxWrongCodes = 10
)

// signIn begins and ends sessions.
type signIn struct {
	cfg      Config
	sessions *sessions

	mu    sync.Mutex
	wrong int // codes
	spent bool
}

// begin signs in with a token of the registry, or with the code that the console printed.
func (s *signIn) begin(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Token string `json:"token"`
		Code  string `json:"code"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSecret)).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "want JSON with a token or a code")
		return
	}
	request.Token, request.Code = strings.TrimSpace(request.Token), strings.TrimSpace(request.Code)
	var credential credentials.PerRPCCredentials
	switch {
	case request.Code != "":
		if !s.redeem(request.Code) {
			refuse(w, http.StatusUnauthorized, "this is not the code that the console printed, or it was used before: start the console again for a new one")
			return
		}
	case request.Token != "":
		credential = bearer.Credentials(func() (string, error) { return request.Token, nil }, s.cfg.Plaintext)
	default:
		refuse(w, http.StatusBadRequest, "give a token or a code")
		return
	}
	if err := s.check(r.Context(), credential); err != nil {
		code := http.StatusBadGateway
		if status.Code(err) == codes.Unauthenticated {
			code = http.StatusUnauthorized
		}
		refuse(w, code, status.Convert(err).Message())
		return
	}
	if old := s.sessions.find(r); old != nil {
		s.sessions.end(old)
	}
	http.SetCookie(w, s.sessions.begin(credential))
	w.WriteHeader(http.StatusNoContent)
}

// check asks the registry whether it knows the caller: who may see nothing gets an empty list.
func (s *signIn) check(ctx context.Context, credential credentials.PerRPCCredentials) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var options []grpc.CallOption
	if credential != nil {
		options = append(options, grpc.PerRPCCredentials(credential))
	}
	_, err := registryv1.NewRegistryClient(s.cfg.Registry).ListTenants(ctx, &registryv1.ListTenantsRequest{}, options...)
	if status.Code(err) == codes.PermissionDenied {
		return nil // the registry knows who asks
	}
	return err
}

// redeem reports whether the code is right. It is good once, and for a few guesses.
func (s *signIn) redeem(code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Code == "" || s.spent || s.wrong >= maxWrongCodes {
		return false
	}
	if subtle.ConstantTimeCompare([]byte(code), []byte(s.cfg.Code)) != 1 {
		s.wrong++
		return false
	}
	s.spent = true
	return true
}

// show says whether the browser is signed in, and how it can sign in.
func (s *signIn) show(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]bool{ //nolint:errcheck // the browser is gone
		"signedIn": s.sessions.find(r) != nil,
		"code":     s.cfg.Code != "",
	})
}

// end signs out.
func (s *signIn) end(w http.ResponseWriter, r *http.Request) {
	if found := s.sessions.find(r); found != nil {
		s.sessions.end(found)
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
	w.WriteHeader(http.StatusNoContent)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"error": message}) //nolint:errcheck // the browser is gone
}
