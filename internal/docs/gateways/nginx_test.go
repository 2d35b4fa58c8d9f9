package gateways_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// nginx runs nginx with the page's configuration that has the words in it.
func (w *world) nginx(words string) (address string) {
	w.t.Helper()
	address = porttest.Address(w.t)
	dir := w.t.TempDir()
	user := ""
	if os.Getuid() == 0 { // its workers have to open the agent's socket
		user = "user root;"
	}
	temp := ""
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s;\n", name, filepath.Join(dir, name))
	}
	config := fmt.Sprintf("%s\ndaemon off;\nworker_processes 2;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n",
		user, dir, temp, w.configured("nginx.md", "nginx", words, address))
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.run(address, "nginx", "-p", dir, "-e", "stderr", "-c", file)
	return address
}

func TestNginxProxiesFirst(t *testing.T) {
	w := newWorld(t)
	address := w.nginx("accel=@app")
	w.conform(t, address, nil)
	w.table(t, address, "nginx, proxy first")
	w.closed(t, address, 503, 502)
}

func TestNginxAsksFirst(t *testing.T) {
	w := newWorld(t)
	address := w.nginx("auth_request /scriptorium")
	w.conform(t, address, func(x *exchange) {
		switch {
		case x.name == "redirect":
			x.status, x.location = 500, ""
		case x.status == 403:
			x.answer = ""
		}
	})
	w.table(t, address, "nginx, ask first")
	w.closed(t, address, 500, 500)
}
