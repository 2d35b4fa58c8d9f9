//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

const (
	front = "front" // the script that decides, and the gateway's name
	shop  = "shop"  // a page that clients ask for
	staff = "admin" // and one that the script denies at times
)

const caddyfile = `
{
	admin off
}
:8080 {
	route {
		request_header -X-Route
		request_header -X-User
		request_header -X-Original-*
		request_header Connection (?i)x-(user|route) keep-alive
		forward_auth unix//run/scriptorium/http.sock {
			uri /v1/decide/` + tenant + `/` + front + `
			copy_headers X-Route X-User
		}
		@canary header X-Route canary
		reverse_proxy @canary 127.0.0.1:9001
		reverse_proxy 127.0.0.1:9000
	}
}
`

// deciding returns the source of a script that sends requests to the application and names a user to it.
// Denied says whether clients may not see the page admin.
func deciding(route, user string, denied bool) string {
	return fmt.Sprintf(`function handle(request)
  if request.path == "/admin" and %t then return { allow = false, status = 403, body = "not you" } end
  return { headers = { set = { ["x-route"] = %q, ["x-user"] = %q } } }
end
`, denied, route, user)
}

// webGateway puts a real gateway in front of two applications on each node. A LuaScript routes, denies and
// adds a header, and changes under load: no request fails.
func (w *world) webGateway(t *testing.T) {
	w.kubectl(t, manifest(front, deciding("stable", "v1", false)), "apply", "-f", "-")
	w.converged(t, front)
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + front + ", namespace: " + kube.TestNamespace + "}\ndata:\n  Caddyfile: |\n"
	w.kubectl(t, config+"    "+strings.ReplaceAll(strings.TrimSpace(caddyfile), "\n", "\n    ")+"\n", "apply", "-f", "-")
	web := &world{cluster: w.cluster, images: w.images, spec: kube.Gateways{
		Namespace: kube.TestNamespace, Name: front, Protocol: kube.HTTP, Callers: 4, Interval: 10 * time.Millisecond,
		Scripts: []string{tenant + "/" + shop, tenant + "/" + staff}, Caddyfile: front,
	}}
	if err := web.cluster.StartGateways(t.Context(), web.images, web.spec); err != nil {
		t.Fatal(err)
	}
	web.refreshGateways(t)
	web.everywhere(t, shop, sight.State{Content: "200 stable for v1"})
	web.everywhere(t, staff, sight.State{Content: "200 stable for v1"})

	before := web.calls(t)
	for n := 2; n <= 11; n++ {
		route, denied := "stable", n%2 == 0
		if denied {
			route = "canary"
		}
		user := fmt.Sprintf("v%d", n)
		w.kubectl(t, manifest(front, deciding(route, user, denied)), "apply", "-f", "-")
		w.converged(t, front)
		content := fmt.Sprintf("200 %s for %s", route, user)
		web.everywhere(t, shop, sight.State{Content: content})
		if denied {
			content = "403 not you"
		}
		web.everywhere(t, staff, sight.State{Content: content})
	}
	web.noneFailed(t, before, "")
	w.kubectl(t, "", "-n", kube.TestNamespace, "delete", "daemonset/"+front, "configmap/"+front, "luascript/"+front, "--timeout=60s")
}
