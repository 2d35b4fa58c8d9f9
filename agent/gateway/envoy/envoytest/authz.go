package envoytest

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// authz is the filter of source/extensions/filters/http/ext_authz/ext_authz.cc, with the client of
// source/extensions/filters/common/ext_authz/ext_authz_grpc_impl.cc.
type authz struct {
	config *authzv3.ExtAuthz
	agent  *grpc.ClientConn
}

func (a *authz) request(ctx context.Context, x *exchange) *reply {
	extensions := map[string]string{}
	settings := settingsOf[*authzv3.ExtAuthzPerRoute](x.Gateway, authzName, x.host.GetTypedPerFilterConfig(), x.route.GetTypedPerFilterConfig())
	for _, s := range settings {
		maps.Copy(extensions, s.GetCheckSettings().GetContextExtensions())
	}
	if x.route == nil || len(settings) > 0 && settings[len(settings)-1].GetDisabled() {
		return nil
	}
	limit := a.config.GetWithRequestBody()
	if limit.GetAllowPartialMessage() {
		x.t.Error("allow_partial_message is set")
	}
	if limit != nil && len(x.body) > int(limit.GetMaxRequestBytes()) {
		return local(http.StatusRequestEntityTooLarge, "Payload Too Large")
	}
	ctx, cancel := context.WithTimeout(ctx, a.config.GetGrpcService().GetTimeout().AsDuration())
	defer cancel()
	resp, err := authv3.NewAuthorizationClient(a.agent).Check(ctx, a.check(x, extensions))
	switch {
	case err != nil || resp.GetErrorResponse() != nil:
		return a.fails()
	case resp.GetStatus().GetCode() != 0:
		return a.denied(resp.GetDeniedResponse())
	}
	return a.ok(x, resp.GetOkResponse())
}

// check is createHttpCheck of source/extensions/filters/common/ext_authz/check_request_utils.cc.
func (a *authz) check(x *exchange, extensions map[string]string) *authv3.CheckRequest {
	h := &authv3.AttributeContext_HttpRequest{
		Id: "1", Method: x.head.get(":method"), Path: x.head.get(pathHeader), Host: x.head.get(":authority"),
		Scheme: x.head.get(":scheme"), Protocol: "HTTP/1.1", Size: int64(len(x.body)),
	}
	raw := &corev3.HeaderMap{}
	line := func(name, value string) {
		raw.Headers = append(raw.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	for name, values := range x.head {
		for _, value := range values {
			if name != "x-envoy-auth-partial-body" {
				line(name, value)
			}
		}
	}
	if x.hasBody && a.config.GetWithRequestBody() != nil {
		h.RawBody = x.body
		line("x-envoy-auth-partial-body", "false")
	}
	if a.config.GetEncodeRawHeaders() {
		h.HeaderMap = raw
	} else {
		x.t.Error("encode_raw_headers is not set")
	}
	if !a.config.GetWithRequestBody().GetPackAsBytes() {
		x.t.Error("pack_as_bytes is not set")
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source:            &authv3.AttributeContext_Peer{Address: addressOf(x.remote)},
		Request:           &authv3.AttributeContext_Request{Time: timestamppb.Now(), Http: h},
		ContextExtensions: extensions,
		MetadataContext:   &corev3.Metadata{},
	}}
}

func addressOf(remote string) *corev3.Address {
	host, port, _ := net.SplitHostPort(remote)
	n, _ := strconv.ParseUint(port, 10, 16)
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(n)},
	}}}
}

// fails is the case CheckStatus::Error of onComplete.
func (a *authz) fails() *reply {
	if a.config.GetFailureModeAllow() {
		return nil
	}
	return local(cmp.Or(int(a.config.GetStatusOnError().GetCode()), http.StatusForbidden), "")
}

// denied is the case CheckStatus::Denied.
func (a *authz) denied(d *authv3.DeniedHttpResponse) *reply {
	answer := local(cmp.Or(int(d.GetStatus().GetCode()), http.StatusForbidden), d.GetBody())
	changes, ok := changesOf(d.GetHeaders(), (*corev3.HeaderValue).GetValue, joins)
	if !ok || a.invalid(changes) {
		return rejected()
	}
	for _, c := range changes {
		answer.head.apply(c)
	}
	return answer
}

// ok is the case CheckStatus::OK, without decoder_header_mutation_rules.
func (a *authz) ok(x *exchange, r *authv3.OkHttpResponse) *reply {
	if len(r.GetQueryParametersToSet())+len(r.GetQueryParametersToRemove()) > 0 || a.config.GetDecoderHeaderMutationRules() != nil {
		x.t.Errorf("the agent changes parameters, or the page has rules: %v", r)
	}
	changes, known := changesOf(r.GetHeaders(), (*corev3.HeaderValue).GetValue, joins)
	responses, alsoKnown := changesOf(r.GetResponseHeadersToAdd(), (*corev3.HeaderValue).GetValue, adds)
	if !known || !alsoKnown || a.invalid(changes) || a.invalid(responses) {
		return rejected()
	}
	for _, c := range changes {
		x.head.apply(c)
	}
	for _, name := range r.GetHeadersToRemove() {
		if name = strings.ToLower(name); removable(name) {
			x.head.remove(name)
		}
	}
	if x.head.tooLarge() {
		return rejected()
	}
	x.responses = responses
	if a.config.GetClearRouteCache() && len(r.GetHeaders())+len(r.GetHeadersToRemove()) > 0 {
		x.choose()
	}
	return nil
}

// invalid reports whether validate_mutations rejects the changes.
func (a *authz) invalid(changes []change) bool {
	for _, c := range changes {
		if a.config.GetValidateMutations() && !valid(c.name, c.value) {
			return true
		}
	}
	return false
}

// rejected is rejectResponse.
func rejected() *reply { return local(http.StatusInternalServerError, "") }

func (a *authz) response(x *exchange, h head) *reply {
	for _, c := range x.responses {
		h.apply(c)
	}
	return nil
}
