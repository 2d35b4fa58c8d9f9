package envoy_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
)

// TestCheckArguments: scripts get of ext_authz what every gateway's script gets.
func TestCheckArguments(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	for _, name := range []string{"check_get", "check_post"} {
		x.returns("")
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), message(t, name+".json", &authv3.CheckRequest{}))
		if err != nil || resp.GetOkResponse() == nil {
			t.Fatalf("%s: %v, %v", name, resp, err)
		}
		_, argument := x.asked()
		expectArgument(t, argument, name+".argument.json")
	}
}

// TestCheck: what Envoy gets for what scripts return. The client of check_get.json has sent
// cookie, accept, and a forged scriptorium-upstream.
func TestCheck(t *testing.T) {
	const forged = `"scriptorium-upstream"`
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	for _, tt := range []struct{ name, result, want string }{
		{"nothing", ``, `{"status":{}, "okResponse":{"headersToRemove":[` + forged + `]}}`},
		{"deny", `false`, `{"status":{"code":7}, "deniedResponse":{"status":{"code":403}}}`},
		{"deny with 401", `{"allow":false,"status":401,"body":"who?","response_headers":{"set":{"WWW-Authenticate":"Basic"}}}`, `{"status":{"code":16}, "deniedResponse":{
			"status":{"code":401}, "body":"who?", "headers":[{"header":{"key":"www-authenticate","value":"Basic"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}]}}`},
		{"deny with a status that Envoy has no name for", `{"allow":false,"status":418}`, `{"status":{"code":7}, "deniedResponse":{"status":{"code":418}}}`},
		{"deny, and remove what is not there", `{"allow":false,"response_headers":{"remove":["server"]}}`, `{"status":{"code":7}, "deniedResponse":{"status":{"code":403}}}`},
		{"redirect with cookies", `{"redirect":"/login","cookies":[{"name":"a","value":"1"},{"name":"b","value":"2"}]}`, `{"status":{"code":7}, "deniedResponse":{"status":{"code":302}, "headers":[
			{"header":{"key":"location","value":"/login"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":"set-cookie","value":"a=1; Path=/; HttpOnly; Secure; SameSite=Lax"}},
			{"header":{"key":"set-cookie","value":"b=2; Path=/; HttpOnly; Secure; SameSite=Lax"}}]}}`},
		{
			"headers", `{"headers":{"set":{"x-user":"ann","cookie":"a=1"},"append":{"accept":"text/plain","x-new":["1","2"]},"remove":["cookie","x-old"]},"response_headers":{"set":{"x-a":"1"},"append":{"x-b":"2"}}}`,
			`{"status":{}, "okResponse":{"headers":[
			{"header":{"key":"cookie","value":"a=1"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":"x-user","value":"ann"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":"accept","value":"text/plain"},"append":true},
			{"header":{"key":"x-new","value":"1"}},
			{"header":{"key":"x-new","value":"2"},"append":true}],
			"headersToRemove":["x-old", ` + forged + `], "responseHeadersToAdd":[
			{"header":{"key":"x-a","value":"1"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":"x-b","value":"2"}}]}}`,
		},
		{"an upstream", `{"upstream":"canary"}`, `{"status":{}, "okResponse":{"headers":[{"header":{"key":"scriptorium-upstream","value":"canary"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}]}}`},
		{"a path", `{"path":"/v2"}`, `{"status":{}, "okResponse":{"headersToRemove":[` + forged + `],"headers":[{"header":{"key":":path","value":"/v2?item=1&item=2"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}]}}`},
		{"a query", `{"query":"a=1&a=2&b"}`, `{"status":{}, "okResponse":{"headersToRemove":[` + forged + `],"headers":[{"header":{"key":":path","value":"/cart/../cart?a=1&a=2&b"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}]}}`},
		{"no query", `{"query":""}`, `{"status":{}, "okResponse":{"headersToRemove":[` + forged + `],"headers":[{"header":{"key":":path","value":"/cart/../cart"},"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}]}}`},
		{"metadata", `{"metadata":{"plan":"gold","n":[1,{"a":null}]}}`, `{"status":{}, "okResponse":{"headersToRemove":[` + forged + `]}, "dynamicMetadata":{"plan":"gold","n":[1,{"a":null}]}}`},
		{"metadata of a denial", `{"allow":false,"metadata":{"why":"quota"}}`, `{"status":{"code":7}, "deniedResponse":{"status":{"code":403}}, "dynamicMetadata":{"why":"quota"}}`},
	} {
		x.returns(tt.result)
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), message(t, "check_get.json", &authv3.CheckRequest{}))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		resp.DynamicMetadata = expectRan(t, tt.name, resp.GetDynamicMetadata(), version)
		expect(t, tt.name, resp, &authv3.CheckResponse{}, tt.want)
	}
}

// TestCheckWithoutDecision: Envoy gets an answer, so that its failure_mode_allow does not count.
// Only the settings of the route open it, and what they do not say is closed.
func TestCheckWithoutDecision(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	deep := strings.Repeat(`[`, 30) + strings.Repeat(`]`, 30)
	for _, tt := range []struct {
		name, result string
		settings     map[string]string
		open         bool
		reason       string
	}{
		{"a script that fails", "", map[string]string{"script": "acme/fail"}, false, "SCRIPT"},
		{"a script that fails, open", "", map[string]string{"script": "acme/fail", "fail": "open"}, true, "SCRIPT"},
		{"no script of that name", "", map[string]string{"script": "acme/none"}, false, "NOTFOUND"},
		{"a script that panics", "", map[string]string{"script": "acme/panic"}, false, "INTERNAL"},
		{"a script that takes too long", "", map[string]string{"script": "acme/wait", "timeout": "1ms"}, false, "TIMEOUT"},
		{"no decision", `{"alow":false}`, map[string]string{"script": "acme/d"}, false, "INVALID"},
		{"no decision, open", `{"alow":false}`, map[string]string{"script": "acme/d", "fail": "open"}, true, "INVALID"},
		{"removes a header of the response", `{"response_headers":{"remove":["server"]}}`, map[string]string{"script": "acme/d"}, false, "INVALID"},
		{"metadata that Envoy cannot read", `{"metadata":{"a":` + deep + `}}`, map[string]string{"script": "acme/d"}, false, "INVALID"},
		{"a denial with metadata that Envoy cannot read", `{"allow":false,"metadata":{"a":` + deep + `}}`, map[string]string{"script": "acme/d", "fail": "open"}, false, "INVALID"},
		{"a denial with metadata that is no metadata", `{"allow":false,"metadata":{"a":1e400}}`, map[string]string{"script": "acme/d", "fail": "open"}, false, "INVALID"},
		{"no settings", "", nil, false, "INVALID"},
		{"no script", "", map[string]string{"fail": "open"}, false, "INVALID"},
		{"no name", "", map[string]string{"script": "acme", "fail": "open"}, false, "INVALID"},
		{"an unknown setting", "", map[string]string{"script": "acme/d", "fial": "closed", "fail": "open"}, false, "INVALID"},
		{"an unknown value", "", map[string]string{"script": "acme/d", "fail": "yes"}, false, "INVALID"},
		{"a parameter without a name", "", map[string]string{"script": "acme/d", "fail": "open", "param.": "1"}, false, "INVALID"},
		{"no timeout", "", map[string]string{"script": "acme/d", "fail": "open", "timeout": "-1s"}, false, "INVALID"},
	} {
		x.returns(tt.result)
		req := message(t, "check_get.json", &authv3.CheckRequest{})
		req.Attributes.ContextExtensions = tt.settings
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		headers := resp.GetDeniedResponse().GetHeaders()
		if tt.open {
			headers = resp.GetOkResponse().GetResponseHeadersToAdd()
		} else if resp.GetDeniedResponse().GetStatus().GetCode() != 503 || resp.GetStatus().GetMessage() == "" {
			t.Errorf("%s: %v", tt.name, resp)
		}
		if len(headers) != 1 || headers[0].GetHeader().GetKey() != "scriptorium-reason" || headers[0].GetHeader().GetValue() != tt.reason {
			t.Errorf("%s: %v, want the reason %s", tt.name, resp, tt.reason)
		}
	}
}

// TestCheckRefuses: what cannot be read reaches no script, and is denied where the route is open.
func TestCheckRefuses(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	for name, spoil := range map[string]func(*authv3.AttributeContext){
		"no HTTP":               func(a *authv3.AttributeContext) { a.Request = nil },
		"a fragment":            func(a *authv3.AttributeContext) { a.Request.Http.Path = "/admin#/x" },
		"a fragment of a query": func(a *authv3.AttributeContext) { a.Request.Http.Path = "/admin?debug=1#x" },
		"no certificate":        func(a *authv3.AttributeContext) { a.Source.Certificate = "CN=ann" },
		"a certificate of junk": func(a *authv3.AttributeContext) {
			a.Source.Certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		},
		"an escape that is none": func(a *authv3.AttributeContext) { a.Source.Certificate = "%zz" },
	} {
		x.returns("")
		req := message(t, "check_get.json", &authv3.CheckRequest{})
		req.Attributes.ContextExtensions["fail"] = "open"
		spoil(req.GetAttributes())
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if calls, _ := x.asked(); err != nil || resp.GetDeniedResponse().GetStatus().GetCode() != 503 || calls != 0 {
			t.Errorf("%s: %v, %v, after %d calls", name, resp, err, calls)
		}
	}
}

// TestCheckOfOthers: a caller reaches the tenants of its grant alone.
func TestCheckOfOthers(t *testing.T) {
	me := "uid:" + strconv.Itoa(os.Getuid())
	for rule, want := range map[string]codes.Code{me + "=shop": codes.OK, "uid:4242=*": codes.PermissionDenied} {
		access, err := gateway.ParseAccess([]string{rule})
		if err != nil {
			t.Fatal(err)
		}
		x := newDecider()
		_, conn := serve(t, grpcsock.Options{Executor: x, Access: access})
		req := message(t, "check_get.json", &authv3.CheckRequest{})
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if status.Code(err) != want {
			t.Errorf("%s: %v", rule, err)
		}
		if want == codes.OK && resp.GetDeniedResponse().GetStatus().GetCode() != 503 {
			t.Errorf("%s: %v", rule, resp)
		}
		if calls, _ := x.asked(); calls != 0 {
			t.Errorf("%s: the script ran", rule)
		}
	}
}
