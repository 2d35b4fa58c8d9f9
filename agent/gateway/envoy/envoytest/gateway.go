// Package envoytest is a gateway for tests. It reads a bootstrap of Envoy, and does with the filters ext_authz and
// ext_proc what Envoy's source says, for what the pages of the documentation configure. It fails a test whose
// configuration, or whose agent, needs more than that.
package envoytest

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	procfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Names of the filters, under which routes have settings for them.
const (
	authzName = "envoy.filters.http.ext_authz"
	procName  = "envoy.filters.http.ext_proc"
)

// Gateway is Envoy: one listener with one virtual host, and one filter before the router.
type Gateway struct {
	t        *testing.T
	host     *routev3.VirtualHost
	early    []string          // headers of clients that are removed first
	clusters map[string]string // where each of them is: the address of a TCP port, or the path of a socket
	filter   filter
}

// filter asks an agent about requests.
type filter interface {
	// request returns the answer, if the request does not go on.
	request(ctx context.Context, x *exchange) *reply
	// response returns the answer that takes the place of the response with that head, if one does.
	response(x *exchange, h head) *reply
}

// exchange is a request and its response.
type exchange struct {
	*Gateway
	remote    string // the client's address
	head      head   // of the request
	body      []byte
	hasBody   bool
	route     *routev3.Route
	responses []change // that ext_authz makes to the response
	stream    *stream  // of ext_proc, while there is one
}

// reply is an answer of Envoy's own.
type reply struct {
	head head
	body string
}

// local is an answer with no headers yet: see sendLocalReply.
func local(status int, body string) *reply {
	r := &reply{head: head{statusHeader: {strconv.Itoa(status)}}, body: body}
	if body != "" {
		r.head.set("content-type", "text/plain")
	}
	return r
}

// Authz returns what the bootstrap makes of Envoy. Its filter is ext_authz.
func Authz(t *testing.T, bootstrap string) *Gateway {
	t.Helper()
	g, config := parse(t, bootstrap)
	g.filter = &authz{config: config, agent: g.dial(config.GetGrpcService().GetEnvoyGrpc().GetClusterName())}
	return g
}

// Proc returns Authz with the filter ext_proc in place of ext_authz. Where a route has settings of ext_authz, it
// gets those of ext_proc.
func Proc(t *testing.T, bootstrap, filter, settings string) *Gateway {
	t.Helper()
	g, _ := parse(t, bootstrap)
	config := Parts[*procfilterv3.ExternalProcessor](t, Read(t, filter, &hcmv3.HttpFilter{}))[0]
	ofRoute := Read(t, settings, &anypb.Any{})
	disabled, err := anypb.New(&procfilterv3.ExtProcPerRoute{Override: &procfilterv3.ExtProcPerRoute_Disabled{Disabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range g.host.GetRoutes() {
		for _, s := range settingsOf[*authzv3.ExtAuthzPerRoute](g, authzName, r.GetTypedPerFilterConfig()) {
			r.GetTypedPerFilterConfig()[procName] = ofRoute
			if s.GetDisabled() {
				r.GetTypedPerFilterConfig()[procName] = disabled
			}
		}
	}
	g.filter = newProc(t, config, g.dial(config.GetGrpcService().GetEnvoyGrpc().GetClusterName()))
	return g
}

func parse(t *testing.T, bootstrap string) (*Gateway, *authzv3.ExtAuthz) {
	t.Helper()
	all := Read(t, bootstrap, &bootstrapv3.Bootstrap{})
	managers, filters := Parts[*hcmv3.HttpConnectionManager](t, all), Parts[*authzv3.ExtAuthz](t, all)
	if len(managers) != 1 || len(filters) != 1 || len(managers[0].GetRouteConfig().GetVirtualHosts()) != 1 {
		t.Fatalf("want one manager of connections, one filter and one virtual host: %v", all)
	}
	g := &Gateway{t: t, host: managers[0].GetRouteConfig().GetVirtualHosts()[0], clusters: map[string]string{}}
	for _, mutations := range Parts[*mutationv3.HeaderMutation](t, managers[0]) {
		for _, m := range mutations.GetMutations() {
			g.early = append(g.early, m.GetRemove())
		}
	}
	for _, c := range all.GetStaticResources().GetClusters() {
		address := c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress()
		port := address.GetSocketAddress()
		g.clusters[c.GetName()] = cmp.Or(address.GetPipe().GetPath(), net.JoinHostPort(port.GetAddress(), strconv.Itoa(int(port.GetPortValue()))))
	}
	return g, filters[0]
}

// dial connects to the agent.
func (g *Gateway) dial(cluster string) *grpc.ClientConn {
	g.t.Helper()
	conn, err := grpc.NewClient("unix:"+g.clusters[cluster], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent("envoy")) // agents answer gRPC's own client in another way
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// settingsOf returns the settings for the filter in these configurations, the most specific one last.
func settingsOf[M proto.Message](g *Gateway, name string, configs ...map[string]*anypb.Any) (all []M) {
	for _, c := range configs {
		if c[name] == nil {
			continue
		}
		m, err := c[name].UnmarshalNew()
		if err != nil {
			g.t.Error(err)
			continue
		}
		all = append(all, m.(M))
	}
	return all
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x, err := g.received(r)
	if err != nil {
		g.t.Error(err)
		return
	}
	answer := g.filter.request(ctx, x)
	if answer == nil {
		answer = x.goOn(ctx)
	}
	for name, values := range answer.head {
		if !strings.HasPrefix(name, ":") {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
	}
	status, _ := strconv.Atoi(answer.head.get(statusHeader))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer.body)
}

// received is what the manager of connections makes of a request, and with use_remote_address.
func (g *Gateway) received(r *http.Request) (*exchange, error) {
	h := headOf(r.Header)
	h[":method"], h[":authority"], h[":scheme"], h[pathHeader] = []string{r.Method}, []string{r.Host}, []string{"http"}, []string{r.RequestURI}
	h.set("x-forwarded-proto", "http")
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		h.join("x-forwarded-for", host)
	}
	for _, name := range g.early {
		h.remove(name)
	}
	body, err := io.ReadAll(r.Body)
	if r.ContentLength > 0 {
		h.set("content-length", strconv.FormatInt(r.ContentLength, 10))
	}
	x := &exchange{Gateway: g, remote: r.RemoteAddr, head: h, body: body, hasBody: r.ContentLength != 0}
	x.choose()
	return x, err
}

// choose chooses the route of the request, again after clear_route_cache.
func (x *exchange) choose() {
	x.route = nil
	for _, r := range x.host.GetRoutes() {
		if x.matches(r.GetMatch()) {
			x.route = r
			return
		}
	}
}

func (x *exchange) matches(m *routev3.RouteMatch) bool {
	path, _, _ := strings.Cut(x.head.get(pathHeader), "?")
	switch by := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Path:
		if path != by.Path {
			return false
		}
	case *routev3.RouteMatch_Prefix:
		if !strings.HasPrefix(path, by.Prefix) {
			return false
		}
	default:
		x.t.Errorf("a route matches by %T", by)
	}
	for _, h := range m.GetHeaders() {
		if want := h.GetStringMatch().GetExact(); want == "" || strings.Join(x.head[h.GetName()], ",") != want {
			return false
		}
	}
	return true
}

// goOn returns what the router answers, after the filter.
func (x *exchange) goOn(ctx context.Context) *reply {
	if x.route == nil {
		return local(http.StatusNotFound, "")
	}
	answer, err := x.forward(ctx)
	if err != nil {
		x.t.Error(err)
		return local(http.StatusServiceUnavailable, "")
	}
	if instead := x.filter.response(x, answer.head); instead != nil {
		return instead
	}
	return answer
}

func (x *exchange) forward(ctx context.Context) (*reply, error) {
	if direct := x.route.GetDirectResponse(); direct != nil {
		return local(int(direct.GetStatus()), ""), nil
	}
	path, query, hasQuery := strings.Cut(x.head.get(pathHeader), "?")
	to := &url.URL{Scheme: "http", Host: x.clusters[x.route.GetRoute().GetCluster()], Opaque: path, RawQuery: query, ForceQuery: hasQuery}
	r := &http.Request{Method: x.head.get(":method"), URL: to, Host: x.head.get(":authority"), Header: http.Header{}, ContentLength: int64(len(x.body)), Body: io.NopCloser(bytes.NewReader(x.body))}
	if len(x.body) == 0 {
		r.Body = http.NoBody
	}
	for name, values := range x.head {
		if !strings.HasPrefix(name, ":") && name != "content-length" && name != "connection" {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	answer := &reply{head: headOf(resp.Header), body: string(body)}
	answer.head.set(statusHeader, strconv.Itoa(resp.StatusCode))
	return answer, err
}
