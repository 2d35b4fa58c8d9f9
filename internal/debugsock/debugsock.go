// Package debugsock serves the profiles and variables of a process of Scriptorium on a Unix socket of
// its own. They are on no network: root and the process's own user alone may connect.
package debugsock

import (
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/processprofile"
	"github.com/scriptorium-dev/scriptorium/proto/unixpeer"
	"github.com/scriptorium-dev/scriptorium/script"
)

const flag = "debug-socket"

// Bounds of the socket's server.
const (
	maxConnections = 8
	// longest is how long a profile or a trace may take.
	longest = time.Minute
)

// Options say where the socket is.
type Options struct {
	Path string // none if empty
}

// AddFlags defines --debug-socket.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Path, flag, "", "`path` of a Unix socket with /debug/pprof and /debug/vars, for root and this process's user alone; none when empty")
}

// Server is a socket that is served.
type Server struct {
	server http.Server
	done   chan struct{}
}

// Serve serves the socket until Close. Without a path it does nothing, and neither does Close.
func (o *Options) Serve(log *slog.Logger) (*Server, error) {
	if o.Path == "" {
		return nil, nil
	}
	l, err := gateway.ListenMode(o.Path, gateway.OwnMode)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--"+flag, "%w", err)
	}
	s := &Server{
		server: http.Server{
			Handler:           handler(),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      longest, // which pprof puts off for what takes longer
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	own := &listener{Listener: l, log: log}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(gateway.NewLatest(maxConnections).Listen(own)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the debug socket failed", "socket", o.Path, "error", err)
		}
	}()
	log.Info("profiles and variables of this process are served to its own user and root", "socket", o.Path)
	return s, nil
}

// Close stops serving at once, and removes the socket.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	err := s.server.Close()
	<-s.done
	return err
}

// listener accepts connections of root and of this process's user: a mode does not bind root in
// containers, and a file's mode can be changed.
type listener struct {
	net.Listener
	log *slog.Logger
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, err := unixpeer.Of(conn)
		if err == nil && mayConnect(peer) {
			return conn, nil
		}
		l.log.Warn("a connection to the debug socket was refused: only root and the process's own user may connect", "peer", peer.String(), "error", err)
		_ = conn.Close()
	}
}

func mayConnect(peer unixpeer.Peer) bool {
	return peer.UID == 0 || int(peer.UID) == os.Geteuid()
}

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/debug/vars", expvar.Handler())
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	for _, kind := range []processprofile.Kind{processprofile.Mutex, processprofile.Block} {
		mux.Handle("/debug/pprof/"+string(kind), sampled(kind))
	}
	return short(mux)
}

// short refuses what would take too long.
func short(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := r.FormValue("seconds"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if most := longest.Seconds(); err != nil || !(seconds > 0 && seconds <= most) {
				http.Error(w, fmt.Sprintf("seconds: %.80q is no number above 0 and up to %g", text, most), http.StatusBadRequest)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// sampled serves a profile that has nothing unless the process takes samples meanwhile.
func sampled(kind processprofile.Kind) http.Handler {
	profile := pprof.Handler(string(kind))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("seconds") == "" {
			http.Error(w, "this process takes samples of waits on request only: add ?seconds=10", http.StatusBadRequest)
			return
		}
		defer processprofile.Sample(kind)()
		profile.ServeHTTP(w, r)
	})
}
