package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	maxSecret    = 16 << 10
	checkTimeout = 10 * time.Second
)

// signIn begins and ends sessions.
type signIn struct {
	*Console

	code     *code
	attempts *attempts
	logged   *rate.Limiter // refusals in the log
	oidc     *oidcLogin    // nil for none
}

func newSignIn(c *Console, p *provider) *signIn {
	s := &signIn{Console: c, code: newCode(c.cfg.Announce), attempts: newAttempts(c.cfg.Clock), logged: rate.NewLimiter(allPerMinute/60.0, allBurst)}
	if p != nil {
		s.oidc = newOIDCLogin(s, p)
	}
	return s
}

// route adds the ways to sign in and out.
func (s *signIn) route(mux *http.ServeMux) {
	mux.HandleFunc("POST /session", s.begin)
	mux.HandleFunc("GET /session", s.show)
	mux.HandleFunc("DELETE /session", s.end)
	if s.oidc != nil {
		mux.HandleFunc("GET "+startPath, s.oidc.start)
		mux.HandleFunc("GET "+callbackPath, s.oidc.callback)
	}
}

// begin signs in with a token of the registry, or with the code that the console printed.
func (s *signIn) begin(w http.ResponseWriter, r *http.Request) {
	way, who, err := s.identify(w, r)
	if err == nil {
		err = s.start(w, r, who)
	}
	if way != "" {
		s.metrics.signedIn(way, err == nil)
		s.note(r, way, who.caller, err)
	}
	if err != nil {
		refuseSignIn(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// start begins a session in place of the one that the browser had.
func (s *signIn) start(w http.ResponseWriter, r *http.Request, who identity) error {
	cookie, err := s.sessions.begin(who)
	if err != nil {
		return err
	}
	if old := s.sessions.find(r, false); old != nil {
		s.sessions.finish(old.key)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.SetCookie(w, cookie)
	return nil
}

// note logs who has signed in, or has failed to, and from where: never with what. Strangers do not fill the log: of many refusals, the
// metrics alone have all.
func (s *signIn) note(r *http.Request, way, caller string, err error) {
	if err != nil {
		if !s.logged.AllowN(s.cfg.Clock(), 1) {
			return
		}
		s.log.Warn("a sign-in to the console was refused", "way", way, "peer", r.RemoteAddr, "error", err)
		return
	}
	s.log.Info("somebody signed in to the console", "caller", caller, "way", way, "peer", r.RemoteAddr)
}

// identify returns whom the secret in the request's body stands for, and which way of signing in that is; "" if there is none.
func (s *signIn) identify(w http.ResponseWriter, r *http.Request) (way string, who identity, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return "", who, script.Errorf(script.Invalid, "Content-Type", "want application/json")
	}
	var request struct {
		Token string `json:"token"`
		Code  string `json:"code"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSecret)).Decode(&request); err != nil {
		return "", who, script.Errorf(script.Invalid, "", "want JSON with a token or a code, of %d bytes at most", maxSecret)
	}
	request.Token, request.Code = strings.TrimSpace(request.Token), strings.TrimSpace(request.Code)
	if (request.Token == "") == (request.Code == "") {
		return "", who, script.Errorf(script.Invalid, "", "give a token or a code")
	}
	way = "token"
	if request.Code != "" {
		way = "code"
	}
	done, err := s.attempts.begin(r)
	if err != nil {
		s.metrics.refused("too_many_attempts")
		return way, who, err
	}
	if way == "code" {
		who, err = s.byCode(r.Context(), request.Code)
	} else {
		who, err = s.byToken(r.Context(), request.Token)
	}
	done(err == nil || script.KindOf(err) == script.Unavailable)
	return way, who, err
}

func (s *signIn) byCode(ctx context.Context, typed string) (who identity, err error) {
	right, err := s.code.redeem(typed, func() (err error) {
		who, err = s.check(ctx, s.cfg.Own)
		return err
	})
	if !right {
		return identity{}, script.Errorf(script.Denied, "code", "this is not the code that the console printed last, or it was used before: look for the newest one where the console runs")
	}
	who.until = time.Time{} // whoever runs the console renews its certificate and token
	return who, err
}

func (s *signIn) byToken(ctx context.Context, token string) (identity, error) {
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return identity{}, script.Errorf(script.Invalid, "token", "has characters that no token has: paste it anew")
	}
	return s.knows(ctx, s.bearer(token))
}

// knows is check for a credential that the browser has brought. A registry that takes anything for a credential takes it for
// whom the console itself is.
func (s *signIn) knows(ctx context.Context, credential credentials.PerRPCCredentials) (identity, error) {
	if _, err := s.check(ctx, s.bearer(rand.Text())); err == nil {
		return identity{}, script.Errorf(script.Denied, "token", "the registry has no access policy, so it knows no tokens: sign in with the code that the console printed, or start registryd with --access-policy")
	} else if script.KindOf(err) != script.Denied {
		return identity{}, err
	}
	return s.check(ctx, credential)
}

func (s *signIn) bearer(token string) credentials.PerRPCCredentials {
	return bearer.Credentials(func() (string, error) { return token, nil }, s.cfg.Plaintext)
}

// check asks the registry who that is.
func (c *Console) check(ctx context.Context, credential credentials.PerRPCCredentials) (identity, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var options []grpc.CallOption
	if credential != nil {
		options = append(options, grpc.PerRPCCredentials(credential))
	}
	answer, err := registryv1.NewRegistryClient(c.registry.calls).Check(outgoing(ctx), &registryv1.CheckRequest{}, options...)
	if err != nil {
		return identity{}, fromRegistry(err)
	}
	who := identity{caller: answer.GetCaller(), credential: credential}
	if answer.GetExpires() != nil {
		who.until = answer.GetExpires().AsTime()
	}
	return who, nil
}

// show says whether the browser is signed in, and how it can sign in.
func (s *signIn) show(w http.ResponseWriter, r *http.Request) {
	found := s.sessions.find(r, false)
	answer := map[string]any{"signedIn": found != nil, "code": s.cfg.Announce != nil, "oidc": s.oidc != nil}
	if s.oidc != nil {
		if why := s.oidc.failed(w, r); why != "" {
			answer["failure"] = why
		}
	}
	if found != nil {
		answer["caller"] = found.caller
	}
	writeJSON(w, http.StatusOK, answer)
}

// end signs out.
func (s *signIn) end(w http.ResponseWriter, r *http.Request) {
	if found := s.sessions.find(r, false); found != nil {
		s.sessions.finish(found.key)
		s.log.Info("somebody signed out of the console", "caller", found.caller, "peer", r.RemoteAddr)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.SetCookie(w, s.site.gone(sessionCookie, http.SameSiteStrictMode))
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the browser is gone
}

// refuseSignIn answers that a sign-in failed: who is not known is unauthenticated.
func refuseSignIn(w http.ResponseWriter, r *http.Request, err error) {
	code := connect.Code(0)
	if script.KindOf(err) == script.Denied {
		code = connect.CodeUnauthenticated
	}
	refuse(w, r, failureAs(code, err))
}

// fromRegistry is the registry's error for people. If there was none, the registry cannot be reached.
func fromRegistry(err error) error {
	if len(status.Convert(err).Details()) > 0 || status.Code(err) != codes.Unavailable {
		return wire.FromStatus(err)
	}
	return script.Errorf(script.Unavailable, "", "the console cannot reach the registry: try again, and look at --registry and the log of the console (%w)", err)
}
