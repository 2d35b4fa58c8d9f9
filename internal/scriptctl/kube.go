package scriptctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/kubeforward"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	"github.com/scriptorium-dev/scriptorium/script"
)

// pluginName is the file that kubectl runs, and programKubectl how people call it.
const (
	pluginName     = "kubectl-scriptorium"
	programKubectl = "kubectl scriptorium"
)

// kubeConnection is connection through the API server of a cluster.
func (a *app) kubeConnection(s *settings) (address string, options []registryclient.Option, err error) {
	cluster, err := kubeforward.Open(kubeforward.Options{
		Kubeconfig: a.kube.kubeconfig, Context: s.kube.Context, Namespace: s.kube.Namespace, Service: s.kube.Service, Secret: s.kube.Secret,
	})
	if err != nil {
		return "", nil, usage(err)
	}
	config, token, err := a.kubeCredentials(cluster, s)
	if err != nil {
		return "", nil, err
	}
	// gRPC would look up the name, which is one of the cluster alone.
	names := manual.NewBuilderWithScheme("dns")
	names.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: cluster.Address()}}})
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return cluster.Dial(ctx) }
	options = []registryclient.Option{
		registryclient.WithTLS(config), registryclient.WithDialOptions(grpc.WithResolvers(names), grpc.WithContextDialer(dial)),
		registryclient.WithAdvice("the way is " + cluster.String() + ", from " + s.kube.from),
	}
	if token != "" {
		options = append(options, registryclient.WithDialOptions(grpc.WithPerRPCCredentials(bearer.Credentials(func() (string, error) { return token, nil }, false))))
	}
	return cluster.Address(), options, nil
}

// kubeCredentials returns the credentials that somebody named, and those of the cluster's Secret for what is missing.
func (a *app) kubeCredentials(cluster *kubeforward.Cluster, s *settings) (config *tls.Config, token string, err error) {
	var c kubeforward.Credentials
	c.Token = s.token.value
	if s.tokenFile.value != "" {
		read, err := tlsfiles.Secret(s.tokenFile.value, tlsfiles.WarnOfOpen, a.warnings())
		if err != nil {
			return nil, "", usage(s.named(script.Errorf(script.Invalid, "--token-file", "%w", err)))
		}
		if c.Token, err = read(); err != nil {
			return nil, "", usage(err)
		}
	}
	for _, file := range []struct {
		sourced
		flag string
		into *[]byte
	}{{s.ca, "--ca", &c.CA}, {s.cert, "--cert", &c.Cert}, {s.key, "--key", &c.Key}} {
		if file.value == "" {
			continue
		}
		if *file.into, err = os.ReadFile(file.value); err != nil {
			return nil, "", usage(s.named(script.Errorf(script.Invalid, file.flag, "%w", err)))
		}
	}
	identified := c.Token != "" || len(c.Cert) > 0
	if !identified || len(c.CA) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), registryclient.DefaultTimeout)
		defer cancel()
		found, err := cluster.Credentials(ctx)
		if err != nil {
			return nil, "", err
		}
		if len(c.CA) == 0 {
			c.CA = found.CA
		}
		if !identified {
			c.Cert, c.Key, c.Token = found.Cert, found.Key, found.Token
		}
	}
	config = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(c.CA) {
		return nil, "", usage(script.Errorf(script.Invalid, "ca", "holds no certificate in PEM"))
	}
	if len(c.Cert) > 0 {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, "", usage(s.named(script.Errorf(script.Invalid, "cert", "and key cannot be used together: %w", err)))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, c.Token, nil
}

// renamed names the program as its users call it, in help texts and in errors that say what to do.
var renamed = strings.NewReplacer("scriptctl ", programKubectl+" ", "scriptctl\"", programKubectl+"\"").Replace

// own returns a text with the name that this program was called by.
func (a *app) own(text string) string {
	if a.byKubectl {
		return renamed(text)
	}
	return text
}

// asPlugin makes the texts of all commands those of a plugin of kubectl.
func asPlugin(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: programKubectl}
	var rename func(*cobra.Command)
	rename = func(c *cobra.Command) {
		c.Short, c.Long, c.Example = renamed(c.Short), renamed(c.Long), renamed(c.Example)
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = renamed(f.Usage) })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = renamed(f.Usage) })
		for _, sub := range c.Commands() {
			rename(sub)
		}
	}
	rename(root)
}
