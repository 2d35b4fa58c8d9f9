// Package scriptorium is a module of Caddy that has scripts decide about requests, in Caddy's own
// process: xcaddy build --with github.com/scriptorium-dev/scriptorium/gateways/caddy
//
//	{
//		scriptorium {
//			registry registry.internal:7070
//			nats_url tls://nats.internal:4222
//			trusted_key /etc/scriptorium/registry.pub
//			state_dir /var/lib/caddy/scriptorium
//		}
//	}
//	:8080 {
//		scriptorium acme/gate
//		reverse_proxy 127.0.0.1:9000
//	}
//
// docs/gateways/caddy.md describes all of it.
package scriptorium

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/scriptorium-dev/scriptorium/client/middleware"
	"github.com/scriptorium-dev/scriptorium/embed"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler has a script decide about each request. It denies, answers or redirects it, or changes its
// headers, path and query. The placeholders {scriptorium.upstream}, {scriptorium.version},
// {scriptorium.metadata} and {scriptorium.metadata.NAME} have the rest of the decision.
type Handler struct {
	// Script is "tenant/name", or "tenant/name@7" for one version, or "event=NAME/TENANT" for the scripts
	// of the tenant that run on the event.
	Script string `json:"script"`
	// Fail says what becomes of a request without a decision: "closed" denies it, and "open" lets it go
	// on. By default the script's onError says so.
	Fail string `json:"fail,omitempty"`
	// Timeout bounds a decision, besides the script's own limit.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// Body is how many bytes of a body the script sees; a longer one is answered with 413. By default the
	// script sees none.
	Body int64 `json:"body,omitempty"`
	// Params are what the script reads as request.params.
	Params map[string]string `json:"params,omitempty"`
	// Key is the part of a request that is its key in a rollout by key, such as "request.cookies.user".
	Key string `json:"key,omitempty"`
	// EncodedSlashes lets a path have %2F or %5C in it, which is answered with 400 otherwise.
	EncodedSlashes bool `json:"encoded_slashes,omitempty"`

	// Agent configures the agent in this process. Handlers with equal configurations share one, which
	// stays when Caddy reloads its configuration.
	Agent *embed.Config `json:"agent,omitempty"`
	// Socket is the path of the http.sock of an agent beside Caddy, in place of one in this process.
	Socket string `json:"socket,omitempty"`

	gate   *middleware.Gate
	close  func() error
	logger *zap.Logger
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

// CaddyModule implements caddy.Module.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.scriptorium", New: func() caddy.Module { return new(Handler) }}
}

// Provision implements caddy.Provisioner: it starts the agent, unless another handler has.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	rule := h.rule()
	if err := rule.Validate(); err != nil { // before an agent starts
		return err
	}
	decider, err := h.decider(ctx)
	if err != nil {
		return err
	}
	h.gate, err = middleware.New(decider, rule)
	return err
}

func (h *Handler) rule() middleware.Rule {
	return middleware.Rule{
		Script: h.Script, Fail: h.Fail, Timeout: time.Duration(h.Timeout), Body: h.Body, Params: h.Params, Key: h.Key, EncodedSlashes: h.EncodedSlashes,
	}
}

func (h *Handler) decider(ctx caddy.Context) (middleware.Decider, error) {
	switch {
	case h.Agent != nil && h.Socket != "":
		return nil, errors.New("socket: names an agent beside Caddy, and other settings configure one in Caddy: leave one out")
	case h.Socket != "":
		socket := middleware.NewSocket(h.Socket)
		h.close = func() error {
			socket.Close()
			return nil
		}
		return socket, nil
	case h.Agent == nil:
		return nil, errors.New("there is no agent: configure one in the global options, as scriptorium { registry … }, or name the socket of one")
	}
	agent, release, err := agents.acquire(h.Agent)
	if err != nil {
		return nil, err
	}
	h.close = release
	if err := measure(ctx, agent); err != nil {
		h.logger.Warn("the metrics of the agent are not shown", zap.Error(err))
	}
	return agent, nil
}

// Validate implements caddy.Validator.
func (h *Handler) Validate() error {
	if h.gate == nil {
		return errors.New("the handler is not provisioned")
	}
	return nil
}

// Cleanup implements caddy.CleanerUpper: the last handler of an agent ends it.
func (h *Handler) Cleanup() error {
	if h.close == nil {
		return nil
	}
	release := h.close
	h.close = nil
	return release()
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	client, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	d := h.gate.Decide(w, r, client)
	if d.Reason != "" {
		h.logger.Debug("the script has not decided", zap.String("script", h.Script), zap.String("reason", d.Reason))
	}
	place(r.Context(), d)
	if !d.Allow {
		d.Answer(w)
		return nil
	}
	d.Request.Apply(r.Header)
	if d.Path != nil || d.Query != nil {
		d.Rewrite(r.URL)
		r.RequestURI = r.URL.RequestURI()
	}
	if d.Response.IsEmpty() {
		return next.ServeHTTP(w, r)
	}
	changing := d.Writer(w)
	err := next.ServeHTTP(changing, r)
	if err == nil {
		changing.Finish()
	}
	return err
}
