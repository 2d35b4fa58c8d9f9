package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	startPath    = "/oidc/start"
	callbackPath = "/oidc/callback"
	loginTimeout = 10 * time.Minute // to sign in at the provider
	failureTime  = time.Minute      // to show why that failed
	maxQuery     = 4 << 10
	maxReturn    = 1 << 10
)

// login is a sign-in that goes on at the provider. It is in a cookie of the browser that began it, so that no other browser
// can end it, and sealed.
type login struct {
	State, Nonce, Verifier string
	Return                 string // the page to go to afterwards
	Until                  time.Time
	// Session is the key of the session that the browser had: it does not show that when the provider sends it back.
	Session [sha256.Size]byte
}

// oidcLogin signs in at a provider.
type oidcLogin struct {
	*signIn

	provider *provider
	seal     cipher.AEAD
}

func newOIDCLogin(s *signIn, p *provider) *oidcLogin {
	key := make([]byte, 32)
	rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right size
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // so has the block
	}
	return &oidcLogin{signIn: s, provider: p, seal: seal}
}

// start sends the browser to the provider. Only the console's own pages, and people, begin that.
func (o *oidcLogin) start(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		o.metrics.refused("cross_origin")
		refuse(w, r, failure(script.Errorf(script.Denied, "", "this request comes from a page of another site: open the console itself")))
		return
	}
	e, err := o.provider.endpoints(r.Context())
	if err != nil {
		o.fail(w, r, err)
		return
	}
	client, err := o.provider.client(e)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	l := login{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: ownPage(r.URL.Query().Get("to")), Until: o.cfg.Clock().Add(loginTimeout)}
	if had := o.sessions.find(r, false); had != nil {
		l.Session = had.key
	}
	http.SetCookie(w, o.site.make(loginCookie, o.sealed(loginCookie, l), int(loginTimeout.Seconds()), http.SameSiteLaxMode))
	redirect(w, r, client.AuthCodeURL(l.State, oauth2.S256ChallengeOption(l.Verifier), oidc.Nonce(l.Nonce)))
}

// callback takes the browser back from the provider.
func (o *oidcLogin) callback(w http.ResponseWriter, r *http.Request) {
	l, err := o.begun(r)
	http.SetCookie(w, o.site.gone(loginCookie, http.SameSiteLaxMode))
	var who identity
	if err == nil {
		var done func(bool)
		if done, err = o.attempts.begin(r); err == nil {
			who, err = o.finish(r, l)
			done(err == nil || script.KindOf(err) == script.Unavailable && r.Context().Err() == nil) // a browser that goes away has failed
		}
	}
	if err == nil {
		err = o.signIn.start(w, r, who)
	}
	if err == nil {
		o.sessions.finish(l.Session)
	}
	o.metrics.signedIn("oidc", err == nil)
	o.note(r, "oidc", who.caller, err)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	redirect(w, r, l.Return)
}

// begun returns the sign-in that this browser began, if the answer is to that one.
func (o *oidcLogin) begun(r *http.Request) (l login, err error) {
	again := script.Errorf(script.Denied, "", "this browser began no sign-in that this could end, or too long ago: sign in again")
	cookie, err := r.Cookie(o.site.of(loginCookie))
	if err != nil || len(r.URL.RawQuery) > maxQuery || !o.opened(loginCookie, cookie.Value, &l) {
		return l, again
	}
	if !o.cfg.Clock().Before(l.Until) || subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("state")), []byte(l.State)) != 1 {
		return l, again
	}
	return l, nil
}

// finish returns who has signed in: whom the registry takes the provider's id token for.
func (o *oidcLogin) finish(r *http.Request, l login) (identity, error) {
	answer := r.URL.Query()
	if refused := answer.Get("error"); refused != "" {
		return identity{}, script.Errorf(script.Denied, "", "the sign-in provider refused: %.100q %.200q", refused, answer.Get("error_description"))
	}
	if from := answer.Get("iss"); from != "" && from != o.provider.Issuer {
		return identity{}, script.Errorf(script.Denied, "", "the answer is of another sign-in provider: sign in again")
	}
	ctx, cancel := context.WithTimeout(o.provider.context(r.Context()), providerTimeout)
	defer cancel()
	e, err := o.provider.endpoints(ctx)
	if err != nil {
		return identity{}, err
	}
	client, err := o.provider.client(e)
	if err != nil {
		return identity{}, err
	}
	given, err := client.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(l.Verifier))
	if isRefusal(err) {
		return identity{}, script.Errorf(script.Denied, "", "the sign-in provider does not take the console's request: %.300s", err)
	}
	if err != nil {
		return identity{}, script.Errorf(script.Unavailable, "", "the sign-in provider does not answer: try again (%.300s)", err)
	}
	t := &tokens{provider: o.provider, plaintext: o.cfg.Plaintext, refresh: given.RefreshToken}
	var who identity
	if err = t.begin(ctx, e, given, l); err == nil {
		who, err = o.knows(r.Context(), t)
	}
	if err != nil {
		t.revoke()
		return identity{}, err
	}
	who.ended = t.revoke
	if t.refresh != "" {
		who.until = time.Time{} // the tokens are renewed
	}
	return who, nil
}

// fail shows the sign-in page, which shows why it failed. Nothing of that is in the URL.
func (o *oidcLogin) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := flash{Message: script.AsError(err).Message, Until: o.cfg.Clock().Add(failureTime)}
	http.SetCookie(w, o.site.make(failureCookie, o.sealed(failureCookie, f), int(failureTime.Seconds()), http.SameSiteStrictMode))
	redirect(w, r, "/signin/")
}

// flash is a message for the next page.
type flash struct {
	Message string
	Until   time.Time
}

// failed returns why the last sign-in of this browser failed, once.
func (o *oidcLogin) failed(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(o.site.of(failureCookie))
	if err != nil {
		return ""
	}
	http.SetCookie(w, o.site.gone(failureCookie, http.SameSiteStrictMode))
	var f flash
	if !o.opened(failureCookie, cookie.Value, &f) || !o.cfg.Clock().Before(f.Until) {
		return ""
	}
	return f.Message
}

// sealed returns the value for a cookie that only this process can read and make.
func (o *oidcLogin) sealed(name string, value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts and times
	}
	return base64.RawURLEncoding.EncodeToString(o.seal.Seal(nil, nil, text, []byte(name)))
}

func (o *oidcLogin) opened(name, value string, into any) bool {
	data, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return false
	}
	text, err := o.seal.Open(nil, nil, data, []byte(name))
	return err == nil && json.Unmarshal(text, into) == nil
}

// ownPage returns the path and query of a page of the console; "/" for anything else, such as another site.
func ownPage(page string) string {
	u, err := url.Parse(page)
	if err != nil || len(page) > maxReturn || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" ||
		!strings.HasPrefix(page, "/") || strings.HasPrefix(page, "//") || strings.ContainsFunc(page, func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' }) {
		return "/"
	}
	return page
}

// redirect sends the browser on. Nobody keeps that.
func redirect(w http.ResponseWriter, _ *http.Request, to string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
