package respsock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestDecide: a Redis client gets the decisions that gateways get.
func TestDecide(t *testing.T) {
	x := gatewaytest.New()
	var argument atomic.Value
	returns := func(result string) {
		x.Set("acme/gate", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
			argument.Store(string(call.Args[0]))
			if result == "" {
				return nil, script.Errorf(script.Timeout, "", "the call's time ran out")
			}
			return [][]byte{[]byte(result)}, nil
		})
	}
	x.SetOnError("acme/gate", script.OnError{Policy: "open", Status: 418, Body: "short"})
	access, err := gateway.ParseAccess([]string{fmt.Sprintf("uid:%d=acme", os.Getuid())})
	if err != nil {
		t.Fatal(err)
	}
	_, path := serve(t, respsock.Options{Executor: x, Access: access})
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: path, PoolSize: 1})
	defer db.Close()
	decide := func(args ...any) (string, error) {
		return db.Do(t.Context(), append([]any{"SCRIPTORIUM.DECIDE"}, args...)...).Text()
	}

	for _, c := range []struct{ result, want string }{
		{`true`, `{"allow":true,"headers":{},"response_headers":{},"version":7}`},
		{`{"allow":false,"body":"<no>"}`, `{"allow":false,"status":403,"body":"<no>","headers":{},"response_headers":{},"version":7}`},
		{
			`{"headers":{"set":{"x-user":["ann","bob"]},"append":{"via":"a"},"remove":["x-gone"]},"response_headers":{"set":{"x-a":"1"}},"upstream":"u","path":"/p","query":"","metadata":{"a":1}}`,
			`{"allow":true,"headers":{"remove":["x-gone"],"set":[["x-user","ann"]],"append":[["x-user","bob"],["via","a"]]},"response_headers":{"set":[["x-a","1"]]},"upstream":"u","path":"/p","query":"","metadata":{"a":1},"version":7}`,
		},
		{`{"alow":false}`, `{"allow":true,"headers":{},"response_headers":{"set":[["scriptorium-reason","INVALID"]]},"version":7,"reason":"INVALID"}`},
		{"", `{"allow":true,"headers":{},"response_headers":{"set":[["scriptorium-reason","TIMEOUT"]]},"version":7,"reason":"TIMEOUT"}`},
	} {
		returns(c.result)
		if got, err := decide("acme/gate", `{"uri":"/x/..//%61dmin?id=7","headers":{"X-A":"1","x-b":["2","3"]},"params":{"p":1}}`); err != nil || got != c.want {
			t.Errorf("%s: %s, %v\nwant %s", c.result, got, err, c.want)
		}
	}
	if want := `{"tenant":"acme","method":"","scheme":"","host":"","path":"/admin","raw_path":"/x/..//%61dmin","query":"id=7","remote_addr":"","headers":{"x-a":"1","x-b":["2","3"]},"params":{"p":"1"}}`; argument.Load() != want {
		t.Errorf("the script got %s\nwant %s", argument.Load(), want)
	}
	if got, err := decide("acme/gate", `{"uri":"/"}`, "fail", "closed", "TIMEOUT", "5"); err != nil || !strings.HasPrefix(got, `{"allow":false,"status":418,"body":"short"`) {
		t.Errorf("%s, %v", got, err)
	}
	for _, other := range []string{"other/gate", "event=pre/other"} {
		if got, err := decide(other, `{"uri":"/"}`, "FAIL", "open"); err != nil || !strings.Contains(got, `"DENIED"`) {
			t.Errorf("%s of another tenant: %s, %v", other, got, err)
		}
	}
	x.Set("acme/key", gatewaytest.Key)
	x.SetTrigger("acme/key", script.Trigger{Event: "pre"})
	for target, chain := range map[string]string{"acme/key": "", "event=pre/acme": `,"chain":"key@7"`} {
		got, err := decide(target, `{"uri":"/","headers":{"x-user":"bob"}}`, "KEY", "ann")
		if err != nil || !strings.Contains(got, `"body":"ann, bob"`) || !strings.Contains(got, chain) {
			t.Errorf("%s with a key: %s, %v", target, got, err)
		}
	}
	for _, malformed := range []string{"event=", "event=pre", "event=pre/acme/x", "event=PRE/acme"} {
		if got, err := decide(malformed, `{"uri":"/"}`, "FAIL", "open"); err == nil || !strings.HasPrefix(err.Error(), "INVALID") {
			t.Errorf("%s: %s, %v; want an error", malformed, got, err)
		}
	}
}

// TestDecideWantsARequest: a caller that sends no request gets an error, whatever fails open, and goes on.
func TestDecideWantsARequest(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: path, PoolSize: 1})
	defer db.Close()
	for _, x := range []struct {
		args []any
		want string
	}{
		{[]any{`{"uri":"/","uri":"/shop"}`}, "INVALID uri: is there twice"},
		{[]any{`{"uri":"/","Method":"GET"}`}, "INVALID Method: is unknown: the names of members are in lower case"},
		{[]any{`{"uri":"/","path":"/"}`}, "INVALID path: is unknown"},
		{[]any{`{"method":"GET"}`}, `INVALID uri: is ""`},
		{[]any{`{"uri":"/admin#/x"}`, "FAIL", "open"}, "INVALID uri: has a # in it"},
		{[]any{`{"uri":"/admin?debug=1#x"}`, "FAIL", "open"}, "INVALID uri: has a # in it"},
		{[]any{`[]`}, "INVALID the argument is no request"},
		{[]any{`{"uri":"/"`}, "INVALID the argument is no request"},
		{[]any{`{"uri":"/"}`, "FAIL", "opne"}, "INVALID fail"},
		{[]any{`{"uri":"/"}`, "FIAL", "open"}, `INVALID "FIAL" is not an option`},
		{[]any{`{"uri":"/"}`, "FAIL"}, `INVALID "FAIL" has no value`},
	} {
		var problem redis.Error
		err := db.Do(t.Context(), append([]any{"SCRIPTORIUM.DECIDE", "acme/echo"}, x.args...)...).Err()
		if !errors.As(err, &problem) || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%v: %v, want %s", x.args, err, x.want)
		}
	}
	if err := db.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

// TestDecideIsCharged: a request that takes much memory gets no decision when the caller has no budget
// left, and the connection goes on.
func TestDecideIsCharged(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/gate", func(context.Context, *gateway.Call) ([][]byte, error) { return nil, nil })
	_, path := serve(t, respsock.Options{Executor: x, Budget: budget.New(2 << 20)})
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: path, PoolSize: 1})
	defer db.Close()
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, `,"h%d":""`, i)
	}
	large := `{"uri":"/","headers":{` + many.String()[1:] + `}}`
	for _, x := range []struct{ request, fail, want string }{
		{large, "closed", `{"allow":false,"status":503`},
		{large, "open", `{"allow":true,"headers":{},"response_headers":{"set":[["scriptorium-reason","OVERLOADED"]]},"reason":"OVERLOADED"}`},
		{`{"uri":"/"}`, "closed", `{"allow":true,"headers":{},"response_headers":{},"version":7}`},
	} {
		got, err := db.Do(t.Context(), "SCRIPTORIUM.DECIDE", "acme/gate", x.request, "FAIL", x.fail).Text()
		if err != nil || !strings.HasPrefix(got, x.want) {
			t.Errorf("%.200s, %v\nwant %s", got, err, x.want)
		}
	}
}
