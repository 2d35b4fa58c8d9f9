// Command oidcprovider is the OpenID Connect provider that tests sign in with: the example of zitadel/oidc, with TLS and with
// one client. Its user is test-user@127.0.0.1 with the password verysecure. It prints its issuer, and ends with the
// process that started it.
package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	parent := os.Getppid()
	go func() {
		for range time.Tick(time.Second) {
			if os.Getppid() != parent { // a test that panics stops nothing
				os.Exit(0)
			}
		}
	}()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "oidcprovider:", err)
		os.Exit(1)
	}
}

func run() error {
	cert := flag.String("cert", "", "file of the certificate")
	key := flag.String("key", "", "file of its private key")
	client := flag.String("client", "console", "id of the client")
	secret := flag.String("secret", "", "secret of the client")
	redirect := flag.String("redirect", "", "where the client wants browsers back")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer := "https://" + l.Addr().String() + "/"
	storage.RegisterClients(storage.WebClient(*client, *secret, *redirect))
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	router := exampleop.SetupServer(issuer, storage.NewStorage(storage.NewUserStore(issuer)), log, false)
	fmt.Println("issuer", issuer)
	server := &http.Server{Handler: router, ReadHeaderTimeout: 10 * time.Second}
	return server.ServeTLS(l, *cert, *key)
}
