package envoy

import (
	"context"
	"net/http"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// authorization implements authv3.AuthorizationServer.
type authorization struct {
	authv3.UnimplementedAuthorizationServer
	decider
}

// Check implements authv3.AuthorizationServer. It answers a request that gets no decision, too:
// Envoy lets requests through after an error of gRPC, if failure_mode_allow is set.
func (a *authorization) Check(ctx context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	attributes := req.GetAttributes()
	s, err := parseSettings("context_extensions", attributes.GetContextExtensions())
	if err != nil {
		return denial(refused(err), ran{}, err)
	}
	r, err := checked(attributes)
	if err != nil {
		return denial(refused(err), ran{}, err)
	}
	d, err := a.decide(ctx, s, &r.Request)
	if err == nil && d.Allow {
		var resp *authv3.CheckResponse
		if resp, err = consent(&d.Decision, d.ran, r); err == nil {
			return resp, nil
		}
	}
	if err != nil {
		d.Decision = s.Fail.Instead(d.onError, err)
	}
	if d.Allow {
		return consent(&d.Decision, d.ran, r)
	}
	return denial(d.Decision, d.ran, err)
}

// consent lets the request go on, with the changes of the decision. Its error says which of these
// ext_authz cannot make.
func consent(d *decision.Decision, by ran, r *request) (*authv3.CheckResponse, error) {
	metadata, err := metadataOf(d.Metadata, by)
	if err != nil {
		return nil, err
	}
	client := changesOf(d.Response, func(string) bool { return false })
	if len(client.remove) > 0 {
		return nil, script.Errorf(script.Invalid, "response_headers.remove", "has %s: Envoy's ext_authz removes no headers of responses, its ext_proc does", client.remove[0])
	}
	upstream := requestChanges(d, r)
	ok := &authv3.OkHttpResponse{HeadersToRemove: upstream.remove}
	for _, l := range upstream.lines {
		option := l.option()
		if l.more {
			// Envoy releases that do not know append_action here replace the value without it.
			option.Append = wrapperspb.Bool(true) //nolint:staticcheck // see above
		}
		ok.Headers = append(ok.Headers, option)
	}
	for _, l := range client.lines {
		ok.ResponseHeadersToAdd = append(ok.ResponseHeadersToAdd, l.option())
	}
	return &authv3.CheckResponse{
		Status:          &rpcstatus.Status{},
		HttpResponse:    &authv3.CheckResponse_OkResponse{OkResponse: ok},
		DynamicMetadata: metadata,
	}, nil
}

// denial answers the client's request. cause is why there is no decision of a script, or nil.
func denial(d decision.Decision, by ran, cause error) (*authv3.CheckResponse, error) {
	metadata, err := metadataOf(d.Metadata, by)
	if err != nil {
		return denial(refused(err), ran{}, err)
	}
	code := codes.PermissionDenied
	if d.Status == http.StatusUnauthorized {
		code = codes.Unauthenticated
	}
	status := &rpcstatus.Status{Code: int32(code)}
	if cause != nil {
		status.Message = cause.Error()
	}
	denied := &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(d.Status)}, Body: d.Body}
	// The response has no headers yet, so there are none to remove.
	for _, l := range changesOf(d.Response, func(string) bool { return false }).lines {
		denied.Headers = append(denied.Headers, l.option())
	}
	return &authv3.CheckResponse{
		Status:          status,
		HttpResponse:    &authv3.CheckResponse_DeniedResponse{DeniedResponse: denied},
		DynamicMetadata: metadata,
	}, nil
}

// option returns the change as ext_authz reads it. Releases that do not know append_action for a
// denial add each value, which append = true would drop.
func (l line) option() *corev3.HeaderValueOption {
	action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	if l.add {
		action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	}
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: l.name, Value: l.value}, AppendAction: action}
}
