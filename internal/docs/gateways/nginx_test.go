package gateways_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// nginx runs nginx with the page's configuration that has the words in it, changed, and with the modules.
// Files of the page that belong into /etc/nginx have their names.
func (w *world) nginx(words string, changed change, files map[string]string, modules ...string) (address string) {
	w.t.Helper()
	address = porttest.Address(w.t)
	dir := w.t.TempDir()
	main := ""
	for _, module := range modules {
		module = "/usr/lib/nginx/modules/" + module + ".so"
		needs.File(w.t, module, "libnginx-mod-http-js, libnginx-mod-http-lua")
		main += "load_module " + module + ";\n"
	}
	if os.Getuid() == 0 { // its workers have to open the agent's socket
		main += "user root;\n"
	}
	temp := ""
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s;\n", name, filepath.Join(dir, name))
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	config := fmt.Sprintf("%sdaemon off;\nworker_processes 2;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n",
		main, dir, temp, strings.ReplaceAll(changed(w.configured("nginx.md", "nginx", words, address)), "/etc/nginx", dir))
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.run(address, "nginx", "-p", dir, "-e", "stderr", "-c", file)
	return address
}

func TestNginxProxiesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.nginx("accel=@app", asItIs, nil)
	w.conform(t, address, nil)
	w.table(t, address, "nginx, proxy first")
	byEvent := w.byEvent("/v1/decide/accel=@app/acme/gate", "/v1/decide/accel=@app,event=pre-route,key=request.cookies.user/acme")
	w.events(t, w.nginx("accel=@app", byEvent, nil), w.column(t, "nginx, proxy first"))
	w.closed(t, address, w.column(t, "nginx, proxy first"))
}

func TestNginxAsksFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.nginx("auth_request /scriptorium", asItIs, nil)
	w.conform(t, address, func(x *exchange) {
		switch {
		case x.name == "redirect":
			x.status, x.location = 500, ""
		case x.status == 403:
			x.answer = ""
		}
	})
	w.table(t, address, "nginx, ask first")
	w.events(t, w.nginx("auth_request /scriptorium", w.httpEvent(), nil), w.column(t, "nginx, ask first"))
	w.closed(t, address, w.column(t, "nginx, ask first"))
}

func TestNginxAsksWithJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text, err := os.ReadFile(pages + "nginx.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"scriptorium.js": page.Blocks(string(text), "js")[0]}
	address := w.nginx("js_content", asItIs, files, "ngx_http_js_module")
	w.conform(t, address, nil)
	w.table(t, address, "nginx, JavaScript")
	w.events(t, w.nginx("js_content", w.httpEvent(), files, "ngx_http_js_module"), w.column(t, "nginx, JavaScript"))
	w.closed(t, address, w.column(t, "nginx, JavaScript"))
}

func TestNginxAsksWithLua(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text, err := os.ReadFile(pages + "nginx.md")
	if err != nil {
		t.Fatal(err)
	}
	needs.File(t, "/usr/share/lua/5.1/nginx/redis.lua", "lua-nginx-redis")
	files := map[string]string{"scriptorium.lua": w.patient(page.Blocks(string(text), "nginxlua")[0], "set_timeout(500)", "set_timeout(10000)")}
	address := w.nginx("access_by_lua_block", asItIs, files, "ndk_http_module", "ngx_http_lua_module")
	w.conform(t, address, nil)
	w.table(t, address, "nginx, Lua")
	w.appliesAll(t, address)
	byEvent := w.byEvent(`"acme/gate"`, `"event=pre-route/acme", "KEY", ngx.var.cookie_user or ""`)
	w.events(t, w.nginx("access_by_lua_block", byEvent, files, "ndk_http_module", "ngx_http_lua_module"), w.column(t, "nginx, Lua"))
	w.closed(t, address, w.column(t, "nginx, Lua"))
}
