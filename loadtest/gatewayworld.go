package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// gatewayWorld is everything that `loadtest gateways` runs.
type gatewayWorld struct {
	dir      string
	opa      string
	app      string // address of the application
	agent    int    // process group
	stops    []func()
	gateways []*gatewayProcess
}

// gatewayProcess is one gateway with one configuration.
type gatewayProcess struct {
	name    string // "nginx/alone"
	address string
	pid     int
	decider int // process group of what decides; 0: nothing
}

// fileName is that of its configuration.
func (g *gatewayProcess) fileName() string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(g.name)
}

func (w *gatewayWorld) stop() {
	for _, stop := range slices.Backward(w.stops) {
		stop()
	}
}

// start starts the agent, the application, and all gateways.
func (w *gatewayWorld) start(ctx context.Context, progress io.Writer) error {
	for _, name := range []string{"nginx", "haproxy", "caddy", "wrk"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed: apt-get install nginx haproxy caddy wrk libnginx-mod-http-js libnginx-mod-http-lua lua-nginx-redis lua-cjson", name)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "wrk.lua"), []byte(wrkReport), 0o600); err != nil {
		return err
	}
	gate, err := gateScript()
	if err != nil {
		return err
	}
	if err := w.startAgent(ctx, gate.Source); err != nil {
		return err
	}
	app := &gatewayProcess{name: "app"}
	if err := w.nginx(ctx, app, "server { listen 8080; location / { return 200 ok; } }"); err != nil {
		return err
	}
	w.app = app.address
	opa, err := w.startOPA(ctx)
	if err != nil {
		fmt.Fprintln(progress, "loadtest: OPA is not measured:", err)
	}
	if err := w.nginxes(ctx); err != nil {
		return err
	}
	if err := w.nginx(ctx, &gatewayProcess{name: "nginx/alone"}, nginxAlone); err != nil {
		return err
	}
	constant, socket := &gatewayProcess{name: "constant"}, filepath.Join(w.dir, "constant.sock")
	if err := w.nginx(ctx, constant, "server { listen 8080; listen unix:"+socket+"; location / { return 200; } }"); err != nil {
		return err
	}
	if err := w.nginx(ctx, &gatewayProcess{name: "nginx/constant", decider: constant.pid}, strings.ReplaceAll(nginxConstant, "CONSTANT", socket)); err != nil {
		return err
	}
	if opa != nil {
		if err := w.nginx(ctx, &gatewayProcess{name: "nginx/OPA", decider: opa.pid}, strings.ReplaceAll(nginxOPA, "OPA", opa.address)); err != nil {
			return err
		}
	}
	if err := w.haproxies(ctx); err != nil {
		return err
	}
	if err := w.caddies(ctx); err != nil {
		return err
	}
	if err := w.modules(ctx, progress, gate); err != nil {
		return err
	}
	w.gateways = slices.DeleteFunc(w.gateways, func(g *gatewayProcess) bool { return g.name == "app" || g.name == "constant" })
	slices.SortFunc(w.gateways, gatewayNamed)
	return nil
}

// gateScript returns the script of the pages.
func gateScript() (manifest.Manifest, error) {
	text, err := os.ReadFile("docs/gateways/README.md")
	if err != nil {
		return manifest.Manifest{}, fmt.Errorf("%w: run it at the top of the repository", err)
	}
	all, err := manifest.Parse("README.md", []byte(page.Blocks(string(text), "yaml")[0]), ".")
	if err != nil {
		return manifest.Manifest{}, err
	}
	return all[0], nil
}

// startAgent starts an agent with the script.
func (w *gatewayWorld) startAgent(ctx context.Context, gate []byte) error {
	source := filepath.Join(w.dir, "gate.lua")
	if err := os.WriteFile(source, gate, 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "agent", "--socket-dir", w.dir, "--gate", source)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := w.run(cmd, func() { _ = stdin.Close() }); err != nil {
		return err
	}
	w.agent = cmd.Process.Pid
	return errors.Join(waitForSocket(ctx, filepath.Join(w.dir, "http.sock")), waitForSocket(ctx, filepath.Join(w.dir, "spop.sock")))
}

// run starts a process in a group of its own, and ends it with the world.
func (w *gatewayWorld) run(cmd *exec.Cmd, end func()) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	w.stops = append(w.stops, func() {
		end()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return nil
}

// listen runs a gateway on a free port, and waits until it listens there.
func (w *gatewayWorld) listen(ctx context.Context, g *gatewayProcess, command func(address string) (*exec.Cmd, error)) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g.address = l.Addr().String()
	_ = l.Close()
	cmd, err := command(g.address)
	if err != nil {
		return err
	}
	if err := w.run(cmd, func() {}); err != nil {
		return err
	}
	g.pid = cmd.Process.Pid
	w.gateways = append(w.gateways, g)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", g.address); err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen", g.name)
		}
	}
}

// localized has the configuration of a page use the folder, the application and the port of this run.
func (w *gatewayWorld) localized(config, address string) string {
	_, port, _ := net.SplitHostPort(address)
	return strings.NewReplacer("/run/scriptorium", w.dir, "/etc/haproxy", w.dir, "/etc/nginx", filepath.Join(w.dir, "nginx"), "127.0.0.1:9000", w.app, "8080", port).Replace(config)
}

func (w *gatewayWorld) write(name, text string) (file string, err error) {
	file = filepath.Join(w.dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// The application and the upstream of a gateway alone have connections that are kept, as in the pages' setups.
const nginxAlone = `server { listen 8080; location / { proxy_pass http://127.0.0.1:9000; } }`

// nginxConstant asks another nginx first, which allows everything: what asking costs at the least.
const nginxConstant = `upstream constant { server unix:CONSTANT; keepalive 16; }
server {
  listen 8080;
  location / { auth_request /constant; proxy_pass http://127.0.0.1:9000; }
  location = /constant {
    internal;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_pass http://constant/;
  }
}`

// nginxOPA asks OPA first: OPA answers 200 with a value, and 404 where it is undefined.
const nginxOPA = `upstream opa { server unix:OPA; keepalive 16; }
server {
  listen 8080;
  location / { auth_request /opa; proxy_pass http://127.0.0.1:9000; }
  location = /opa {
    internal;
    proxy_method POST;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Content-Type application/json;
    proxy_set_body '{"method":"$request_method","path":"$uri","query":"$args","user":"$cookie_user","host":"$http_host","agent":"$http_user_agent","remote":"$remote_addr"}';
    proxy_pass http://opa/v0/data/gate/allow;
  }
}`

func (w *gatewayWorld) nginx(ctx context.Context, g *gatewayProcess, config string, modules ...string) error {
	return w.listen(ctx, g, func(address string) (*exec.Cmd, error) {
		dir, err := os.MkdirTemp(w.dir, "nginx")
		if err != nil {
			return nil, err
		}
		temp := ""
		for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			temp += fmt.Sprintf("%s_temp_path %s/%s; ", name, dir, name)
		}
		main := ""
		for _, module := range modules {
			main += "load_module /usr/lib/nginx/modules/" + module + ".so; "
		}
		if os.Getuid() == 0 {
			main += "user root;"
		}
		text := fmt.Sprintf("%s daemon off; worker_processes 1; pid %s/pid; error_log stderr; events {}\nhttp { access_log off; keepalive_requests 100000000; %s\n%s }\n",
			main, dir, temp, w.localized(config, address))
		file := filepath.Join(dir, "nginx.conf")
		return exec.CommandContext(ctx, "nginx", "-p", dir, "-e", "stderr", "-c", file), os.WriteFile(file, []byte(text), 0o600)
	})
}

// nginxes runs nginx with the configurations of its page.
func (w *gatewayWorld) nginxes(ctx context.Context) error {
	text, err := os.ReadFile("docs/gateways/nginx.md")
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(w.dir, "nginx"), 0o755); err != nil {
		return err
	}
	blocks := page.Blocks(string(text), "nginx")
	for name, block := range map[string]string{"scriptorium.js": page.Blocks(string(text), "js")[0], "scriptorium.lua": page.Blocks(string(text), "nginxlua")[0]} {
		if _, err := w.write(filepath.Join("nginx", name), block); err != nil {
			return err
		}
	}
	for _, of := range []struct {
		name, words string
		modules     []string
	}{
		{"nginx/proxy first", "accel=@app", nil},
		{"nginx/ask first", "auth_request /scriptorium", nil},
		{"nginx/JavaScript", "js_content", []string{"ngx_http_js_module"}},
		{"nginx/Lua", "access_by_lua_block", []string{"ndk_http_module", "ngx_http_lua_module"}},
	} {
		config, err := page.Find(blocks, of.words)
		if err != nil {
			return err
		}
		if err := w.nginx(ctx, &gatewayProcess{name: of.name, decider: w.agent}, config, of.modules...); err != nil {
			return err
		}
	}
	return nil
}

const haproxyAlone = `global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend web
    bind :8080
    default_backend app
backend app
    server app 127.0.0.1:9000
`

func (w *gatewayWorld) haproxies(ctx context.Context) error {
	text, err := os.ReadFile("docs/gateways/haproxy.md")
	if err != nil {
		return err
	}
	blocks := page.Blocks(string(text), "haproxy")
	for name, language := range map[string]string{"scriptorium.conf": "spoe", "scriptorium.lua": "haproxylua", "scriptorium-http.lua": "haproxyhttplua"} {
		if _, err := w.write(name, w.localized(page.Blocks(string(text), language)[0], ":0")); err != nil {
			return err
		}
	}
	configs := map[string]string{"haproxy/alone": haproxyAlone}
	for name, words := range map[string]string{
		"haproxy/with Lua": "lua-load /etc/haproxy/scriptorium.lua", "haproxy/without Lua": "return status 302 if { var(txn.scriptorium.status) -m int 302 }",
		"haproxy/over HTTP": "lua-load /etc/haproxy/scriptorium-http.lua",
	} {
		config, err := page.Find(blocks, words)
		if err != nil {
			return err
		}
		if !strings.Contains(config, "global\n") {
			config = "global\n" + config
		}
		configs[name] = strings.Replace(config, "global\n", "global\n    nbthread 1\n", 1)
	}
	for name, config := range configs {
		g := &gatewayProcess{name: name}
		if name != "haproxy/alone" {
			g.decider = w.agent
		}
		if err := w.listen(ctx, g, func(address string) (*exec.Cmd, error) {
			file, err := w.write(g.fileName()+".cfg", w.localized(config, address))
			return exec.CommandContext(ctx, "haproxy", "-db", "-q", "-f", file), err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (w *gatewayWorld) caddies(ctx context.Context) error {
	text, err := os.ReadFile("docs/gateways/caddy.md")
	if err != nil {
		return err
	}
	for name, config := range map[string]string{
		"caddy/alone":        ":8080 {\n\treverse_proxy 127.0.0.1:9000\n}\n",
		"caddy/forward_auth": page.Blocks(string(text), "caddyfile")[0],
	} {
		g := &gatewayProcess{name: name}
		if name != "caddy/alone" {
			g.decider = w.agent
		}
		if err := w.caddy(ctx, g, "caddy", config); err != nil {
			return err
		}
	}
	return nil
}

const gateRego = `package gate

allow if {
	not denied
	not login
}

denied if {
	startswith(input.path, "/admin")
	input.user != "ann"
}

login if {
	input.path == "/account"
	input.user == ""
}
`

// startOPA starts OPA with the same decision on a Unix socket.
func (w *gatewayWorld) startOPA(ctx context.Context) (*gatewayProcess, error) {
	if w.opa == "off" {
		return nil, errors.New("--opa is off")
	}
	path, err := exec.LookPath(w.opa)
	if err != nil {
		return nil, err
	}
	policy, err := w.write("gate.rego", gateRego)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(w.dir, "opa.sock")
	cmd := exec.CommandContext(ctx, path, "run", "--server", "--addr", "unix://"+socket, "--log-level", "error", "--disable-telemetry", policy)
	if err := w.run(cmd, func() {}); err != nil {
		return nil, err
	}
	return &gatewayProcess{name: "opa", address: socket, pid: cmd.Process.Pid}, waitForSocket(ctx, socket)
}
