package envoy

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/url"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// request is a client's request as Envoy describes it.
type request struct {
	decision.Request
	own []string // names of headers that the client sent, and that are ours
	old bool     // ext_proc writes and reads values of headers as text, as older releases do
}

// setTarget takes the path with its query.
func (r *request) setTarget(target string) { r.Path, r.Query, _ = strings.Cut(target, "?") }

// target returns the path and query that the decision makes of the request's.
func (r *request) target(d *decision.Decision) string {
	path, query := r.Path, r.Query
	if d.Path != nil {
		path = *d.Path
	}
	if d.Query != nil {
		query = *d.Query
	}
	if query == "" {
		return path
	}
	return path + "?" + query
}

// addHeader takes a header, unless it is a pseudo header of HTTP/2 or one of ours.
func (r *request) addHeader(name, value string) {
	name = decision.HeaderName(name)
	switch {
	case strings.HasPrefix(name, ":"):
	case strings.HasPrefix(name, ownPrefix):
		r.own = append(r.own, name)
	default:
		r.Headers[name] = append(r.Headers[name], value)
	}
}

// textOf returns the value of a header: Envoy writes either of the two.
func textOf(h *corev3.HeaderValue) string {
	if raw := h.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return h.GetValue()
}

// checked returns the request that a CheckRequest is about.
func checked(attributes *authv3.AttributeContext) (*request, error) {
	http := attributes.GetRequest().GetHttp()
	if http == nil {
		return nil, script.Errorf(script.Invalid, "attributes.request.http", "is missing: scripts decide about HTTP, so use the HTTP filter ext_authz")
	}
	r := &request{Request: decision.Request{
		Method: http.GetMethod(), Scheme: http.GetScheme(), Host: http.GetHost(),
		RemoteAddr: attributes.GetSource().GetAddress().GetSocketAddress().GetAddress(),
		Headers:    make(map[string][]string, len(http.GetHeaders())),
		Body:       http.GetRawBody(),
	}}
	r.setTarget(http.GetPath())
	for name, value := range http.GetHeaders() {
		r.addHeader(name, value)
	}
	for _, h := range http.GetHeaderMap().GetHeaders() {
		r.addHeader(h.GetKey(), textOf(h))
	}
	if len(r.Body) == 0 {
		r.Body = []byte(http.GetBody())
	}
	r.HasBody = len(r.Body) > 0 // Envoy does not tell an empty one from none
	if err := r.Validate(); err != nil {
		return nil, err
	}
	var err error
	r.ClientCertificate, err = subjectOf(attributes.GetSource())
	return r, err
}

// subjectOf returns the subject of the client's certificate, or else the name that Envoy has for
// the client.
func subjectOf(peer *authv3.AttributeContext_Peer) (string, error) {
	if peer.GetCertificate() == "" {
		return peer.GetPrincipal(), nil
	}
	text, err := url.PathUnescape(peer.GetCertificate())
	if err != nil {
		return "", badCertificate(err)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return "", badCertificate(errors.New("no PEM"))
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", badCertificate(err)
	}
	return certificate.Subject.String(), nil
}

func badCertificate(err error) error {
	return script.Errorf(script.Invalid, "attributes.source.certificate", "is no certificate that can be read: %v", err)
}
