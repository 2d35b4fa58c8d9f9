package embed_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/client/middleware"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// BenchmarkEmbedded measures a trivial call, and the decision that docs/gateways shows.
func BenchmarkEmbedded(b *testing.B) {
	w := localtest.Start(b, 0)
	a := w.Embed(b, "shop")
	w.Publish(b, localtest.Manifest("one", `function handle() return 1 end`), 1)
	w.Publish(b, localtest.Manifest("gate", `function handle(request)
  local user = request.cookies.user
  if request.path:find("^/admin") and user ~= "ann" then
    return { allow = false, status = 403, body = "not you\n" }
  end
  return { headers = { set = { ["x-user"] = user or "" } } }
end`), 1)
	b.Run("call", func(b *testing.B) {
		b.ReportAllocs()
		call, reply := gateway.Call{Script: "acme/one", Args: [][]byte{[]byte(`"ann"`)}}, gateway.Reply{}
		for b.Loop() {
			reply.Reset()
			if err := a.Execute(b.Context(), &call, &reply); err != nil && script.KindOf(err) != script.Timeout { // on a busy machine
				b.Fatal(err)
			}
		}
	})
	b.Run("decision", func(b *testing.B) {
		b.ReportAllocs()
		gate, err := middleware.New(a, middleware.Rule{Script: "acme/gate"})
		if err != nil {
			b.Fatal(err)
		}
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://shop.example/cart?id=7", nil)
		r.Header = http.Header{"Accept": {"text/html"}, "User-Agent": {"Mozilla/5.0"}, "Cookie": {"user=ann; theme=dark"}, "Accept-Language": {"en"}, "Accept-Encoding": {"gzip"}}
		for b.Loop() {
			if d := gate.Decide(nil, r, "192.0.2.7"); d.Reason != string(script.Timeout) && len(d.Request.Set) != 1 {
				b.Fatal(d)
			}
		}
	})
}
