package envoy_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
)

// head has the values of headers by name, joined as HTTP joins them.
type head map[string]string

func (h head) add(name, value string) {
	if before, ok := h[name]; ok {
		value = before + "," + value
	}
	h[name] = value
}

// olderEnvoy does what releases of Envoy do that do not know append_action for requests: it sets,
// then appends to headers that there are, and then removes.
func olderEnvoy(h head, ok *authv3.OkHttpResponse) {
	var appended []*corev3.HeaderValueOption
	for _, o := range ok.GetHeaders() {
		if o.GetAppend().GetValue() { //nolint:staticcheck // it is what they read
			appended = append(appended, o)
		} else {
			h[o.GetHeader().GetKey()] = o.GetHeader().GetValue()
		}
	}
	for _, o := range appended {
		if _, there := h[o.GetHeader().GetKey()]; there {
			h.add(o.GetHeader().GetKey(), o.GetHeader().GetValue())
		}
	}
	for _, name := range ok.GetHeadersToRemove() {
		delete(h, name)
	}
}

// newerEnvoy does what releases do that know append_action: changes in their order, and then it
// removes.
func newerEnvoy(h head, ok *authv3.OkHttpResponse) {
	for _, o := range ok.GetHeaders() {
		name, value := o.GetHeader().GetKey(), o.GetHeader().GetValue()
		_, there := h[name]
		switch {
		case o.Append != nil: //nolint:staticcheck // it comes first
			if there {
				h.add(name, value)
			}
		case o.GetAppendAction() == corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
			h.add(name, value)
		default:
			h[name] = value
		}
	}
	for _, name := range ok.GetHeadersToRemove() {
		delete(h, name)
	}
}

// TestEditionsOfEnvoy: whichever release applies the answer, the upstream gets the headers that
// the decision means: it removes first, then sets, then appends.
func TestEditionsOfEnvoy(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	names := []string{"x-a", "x-b", "x-c"}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	some := func() (list []string) {
		for _, name := range names {
			if r.IntN(2) == 0 {
				list = append(list, name)
			}
		}
		return list
	}
	for range 500 {
		before := head{}
		for _, name := range some() {
			before[name] = "0"
		}
		remove, set, more := some(), map[string]string{}, map[string][]string{}
		for _, name := range some() {
			set[name] = "1"
		}
		for _, name := range some() {
			more[name] = slices.Repeat([]string{"2"}, 1+r.IntN(2))
		}
		want := maps.Clone(before)
		for _, name := range remove {
			delete(want, name)
		}
		maps.Copy(want, set)
		for name, values := range more {
			want.add(name, strings.Join(values, ","))
		}
		result, err := json.Marshal(map[string]any{"headers": map[string]any{"remove": append([]string{}, remove...), "set": set, "append": more}})
		if err != nil {
			t.Fatal(err)
		}
		x.returns(string(result))
		req := message(t, "check_get.json", &authv3.CheckRequest{})
		maps.Copy(req.GetAttributes().GetRequest().GetHttp().GetHeaders(), before)
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for edition, apply := range map[string]func(head, *authv3.OkHttpResponse){"older": olderEnvoy, "newer": newerEnvoy} {
			got := maps.Clone(before)
			apply(got, resp.GetOkResponse())
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s releases make %v of %v by %s, want %v", edition, got, before, result, want)
			}
		}
	}
}
