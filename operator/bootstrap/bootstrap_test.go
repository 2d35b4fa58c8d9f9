package bootstrap_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/bootstrap"
)

// documented returns the Secrets and their keys of the package's comment.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^//\t(scriptorium-\S+) {2,}(\S.*?) {3,}\S`).FindAllStringSubmatch(string(text), -1) {
		keys := strings.Fields(row[2])
		slices.Sort(keys)
		secrets[row[1]] = keys
	}
	return secrets
}

func TestMakesWhatIsDocumented(t *testing.T) {
	p := newPlace(t)
	want := documented(t)
	actions := p.must()
	if got := with(actions, bootstrap.Made); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("made %v, want %v", got, want)
	}
	made := p.all()
	for name, keys := range want {
		s := made[name]
		if got := slices.Sorted(maps.Keys(s.Data)); !slices.Equal(got, keys) {
			t.Errorf("%s has the keys %v, want %v", name, got, keys)
		}
		for key, value := range s.Data {
			if len(value) == 0 {
				t.Errorf("%s: %s is empty", name, key)
			}
		}
	}
}

func TestTheSecondTimeNothingHappens(t *testing.T) {
	p := newPlace(t)
	p.must()
	before := p.all()
	actions := p.must()
	if kept := with(actions, bootstrap.Kept); len(kept) != len(before) {
		t.Errorf("%v, want all kept", actions)
	}
	after := p.all()
	for name, s := range before {
		if after[name].ResourceVersion != s.ResourceVersion {
			t.Errorf("%s was written", name)
		}
	}
}

func TestSeveralAtOnce(t *testing.T) {
	p := newPlace(t)
	const runs = 8
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		makers = map[string]int{}
	)
	for range runs {
		wg.Go(func() {
			changes, err := bootstrap.Run(t.Context(), p.secrets, p.opts)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, c := range changes {
				if c.Action == bootstrap.Made {
					makers[c.Secret]++
				}
			}
		})
	}
	wg.Wait()
	for name := range documented(t) {
		if makers[name] != 1 {
			t.Errorf("%s was made %d times", name, makers[name])
		}
	}
	// Everything fits together: otherwise this run would say what does not.
	if kept := with(p.must(), bootstrap.Kept); len(kept) != len(makers) {
		t.Errorf("kept %v", kept)
	}
}

// pair returns the certificate in a Secret.
func pair(t *testing.T, s corev1.Secret) *x509.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return c.Leaf
}

func TestCertificates(t *testing.T) {
	p := newPlace(t)
	p.must()
	made := p.all()
	server, client := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for name, want := range map[string]struct {
		ca, commonName string
		usage          []x509.ExtKeyUsage
	}{
		bootstrap.RegistryTLS:  {bootstrap.CA, "scriptorium-registry", server},
		bootstrap.NATSTLS:      {bootstrap.CA, "scriptorium-nats", server},
		bootstrap.OperatorTLS:  {bootstrap.CA, "operator", client},
		bootstrap.AgentTLS:     {bootstrap.CA, "agent", client},
		bootstrap.AdminTLS:     {bootstrap.CA, "admin", client},
		bootstrap.EtcdTLS:      {bootstrap.EtcdCA, "scriptorium-etcd", server},
		bootstrap.RegistryEtcd: {bootstrap.EtcdCA, "registry", client},
	} {
		t.Run(name, func(t *testing.T) {
			cert := pair(t, made[name])
			if cert.Subject.CommonName != want.commonName || !slices.Equal(cert.ExtKeyUsage, want.usage) || cert.IsCA {
				t.Errorf("%v, %v", cert.Subject, cert.ExtKeyUsage)
			}
			if string(made[name].Data["ca.crt"]) != string(made[want.ca].Data["tls.crt"]) {
				t.Errorf("ca.crt is not %s", want.ca)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(made[name].Data["ca.crt"])
			names := []string{""}
			if want.usage[0] == x509.ExtKeyUsageServerAuth {
				s := want.commonName
				names = []string{
					s, s + "." + p.namespace, s + "." + p.namespace + ".svc", s + "." + p.namespace + ".svc.cluster.local",
					s + "-0." + s + "." + p.namespace + ".svc.cluster.local", s + "-2." + s + "." + p.namespace + ".svc", "localhost", "127.0.0.1", "::1",
				}
			}
			for _, dns := range names {
				if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: dns, KeyUsages: want.usage}); err != nil {
					t.Errorf("%q: %v", dns, err)
				}
			}
			if left := time.Until(cert.NotAfter); left < 364*24*time.Hour || left > 366*24*time.Hour {
				t.Errorf("ends in %v, want a year", left)
			}
		})
	}
	if left := time.Until(pair(t, made[bootstrap.CA]).NotAfter); left < 3649*24*time.Hour || left > 3651*24*time.Hour {
		t.Errorf("the CA ends in %v, want ten years", left)
	}
}

const day = 24 * time.Hour

func TestRenewal(t *testing.T) {
	p := newPlace(t)
	start := time.Now()
	now := start
	p.opts.Now = func() time.Time { return now }
	p.must()
	before := p.all()
	p.change(bootstrap.AgentTLS, func(s *corev1.Secret) { // as when the CA is being changed
		s.Data["ca.crt"] = append(s.Data["ca.crt"], s.Data["ca.crt"]...)
	})
	certificates := []string{
		bootstrap.AdminTLS, bootstrap.AgentTLS, bootstrap.EtcdTLS, bootstrap.NATSTLS,
		bootstrap.OperatorTLS, bootstrap.RegistryEtcd, bootstrap.RegistryTLS,
	}
	now = start.Add(365 * day * 2 / 3).Add(-day)
	if got := with(p.must(), bootstrap.Renewed); got != nil {
		t.Fatalf("%v were renewed with more than a third of their life left", got)
	}
	now = start.Add(365*day*2/3 + day)
	actions := p.must()
	if got := with(actions, bootstrap.Renewed); !slices.Equal(got, certificates) {
		t.Fatalf("%v, want %v renewed", actions, certificates)
	}
	after := p.all()
	for name, s := range after {
		if !slices.Contains(certificates, name) {
			if s.ResourceVersion != before[name].ResourceVersion {
				t.Errorf("%s was written", name)
			}
			continue
		}
		old, renewed := before[name], pair(t, s)
		if !renewed.NotAfter.After(now.Add(364*day)) || string(old.Data["tls.key"]) == string(s.Data["tls.key"]) {
			t.Errorf("%s ends at %v", name, renewed.NotAfter)
		}
		if !slices.Equal(renewed.DNSNames, pair(t, old).DNSNames) || renewed.Subject.String() != pair(t, old).Subject.String() {
			t.Errorf("%s is for others now", name)
		}
	}
	if got, want := string(after[bootstrap.AgentTLS].Data["ca.crt"]), strings.Repeat(string(before[bootstrap.AgentTLS].Data["ca.crt"]), 2); got != want {
		t.Error("the renewal took away a CA that somebody had added")
	}
	if got := with(p.must(), bootstrap.Renewed); got != nil {
		t.Errorf("%v were renewed again", got)
	}
}

func TestRenewalBySeveralAtOnce(t *testing.T) {
	p := newPlace(t)
	p.must()
	p.opts.Now = func() time.Time { return time.Now().Add(300 * day) }
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		renewed int
	)
	for range 6 {
		wg.Go(func() {
			changes, err := bootstrap.Run(t.Context(), p.secrets, p.opts)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, c := range changes {
				if c.Action == bootstrap.Renewed {
					renewed++
				}
			}
		})
	}
	wg.Wait()
	if renewed != 7 {
		t.Errorf("%d renewals, want one of each certificate", renewed)
	}
}

// TestTheEndOfTheCA is said, and not papered over by certificates that end with it.
func TestTheEndOfTheCA(t *testing.T) {
	p := newPlace(t)
	now := time.Now()
	p.opts.Now = func() time.Time { return now }
	p.must()
	end := pair(t, p.all()[bootstrap.CA]).NotAfter
	now = end.Add(-200 * day)
	if got := with(p.must(), bootstrap.Renewed); len(got) != 7 {
		t.Fatalf("renewed %v", got)
	}
	if got := pair(t, p.all()[bootstrap.AgentTLS]).NotAfter; !got.Equal(end) {
		t.Errorf("the certificate ends at %v, its CA at %v", got, end)
	}
	for _, left := range []time.Duration{20 * day, -day} {
		now = end.Add(-left)
		if _, err := p.run(); err == nil || !strings.Contains(err.Error(), bootstrap.CA) || !strings.Contains(err.Error(), "delete") {
			t.Errorf("%v before the end: %v", left, err)
		}
	}
	// What the message says to do.
	p.remove(bootstrap.CA, bootstrap.EtcdCA, bootstrap.Trust)
	for name, s := range p.all() {
		if s.Data["ca.crt"] != nil {
			p.remove(name)
		}
	}
	p.must()
}

// TestServicesOfOtherNames get certificates for these.
func TestServicesOfOtherNames(t *testing.T) {
	p := newPlace(t)
	p.must()
	p.opts.NATSService = "bus"
	if got := with(p.must(), bootstrap.Renewed); !slices.Equal(got, []string{bootstrap.NATSTLS}) {
		t.Errorf("renewed %v", got)
	}
	if cert := pair(t, p.all()[bootstrap.NATSTLS]); cert.VerifyHostname("bus."+p.namespace+".svc") != nil {
		t.Errorf("it is for %v", cert.DNSNames)
	}
}

func TestPartsOfOnesOwn(t *testing.T) {
	const nats, etcd, certificates = "nats", "etcd", "certificates"
	needs := map[string][]string{
		bootstrap.AgentNATS: {nats}, bootstrap.RegistryNATS: {nats}, bootstrap.NATSUsers: {nats}, bootstrap.NATSTLS: {nats, certificates},
		bootstrap.EtcdCA: {etcd, certificates}, bootstrap.EtcdTLS: {etcd, certificates}, bootstrap.RegistryEtcd: {etcd, certificates},
		bootstrap.CA: {certificates}, bootstrap.RegistryTLS: {certificates}, bootstrap.OperatorTLS: {certificates},
		bootstrap.AgentTLS: {certificates}, bootstrap.AdminTLS: {certificates},
	}
	for _, without := range [][]string{{nats}, {etcd}, {certificates}, {nats, etcd}, {nats, etcd, certificates}} {
		t.Run(fmt.Sprint(without), func(t *testing.T) {
			p := newPlace(t)
			if slices.Contains(without, nats) {
				p.opts.NATSService = ""
			}
			if slices.Contains(without, etcd) {
				p.opts.EtcdService = ""
			}
			p.opts.NoCertificates = slices.Contains(without, certificates)
			actions := p.must()
			for name := range documented(t) {
				wanted := !slices.ContainsFunc(needs[name], func(part string) bool { return slices.Contains(without, part) })
				if made := actions[name] == bootstrap.Made; made != wanted {
					t.Errorf("%s: made %t, want %t", name, made, wanted)
				}
			}
		})
	}
}

// TestKeepsWhatOthersHaveMade with names of ours, even certificates that end.
func TestKeepsWhatOthersHaveMade(t *testing.T) {
	p, others := newPlace(t), newPlace(t)
	others.opts.Now = func() time.Time { return time.Now().Add(-400 * day) }
	others.must()
	theirs := others.all()
	copied := []string{bootstrap.CA, bootstrap.Signing, bootstrap.AgentTLS, bootstrap.AgentNATS, bootstrap.Access}
	for _, name := range copied {
		s := theirs[name]
		if _, err := p.secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Type: s.Type, Data: s.Data,
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	actions := p.must()
	if kept := with(actions, bootstrap.Kept); !slices.Equal(kept, slices.Sorted(slices.Values(copied))) {
		t.Errorf("kept %v", kept)
	}
	now := p.all()
	for _, name := range copied {
		if now[name].Labels != nil || !maps.EqualFunc(now[name].Data, theirs[name].Data, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Errorf("%s was changed", name)
		}
	}
	// Their CA signed ours.
	if err := pair(t, now[bootstrap.OperatorTLS]).CheckSignatureFrom(pair(t, theirs[bootstrap.CA])); err != nil {
		t.Error(err)
	}
}

// TestSaysWhatDoesNotFit, does not touch it, and makes the rest.
func TestSaysWhatDoesNotFit(t *testing.T) {
	garbage := func(key string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte("garbage") }
	}
	without := func(key string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { delete(s.Data, key) }
	}
	other := newPlace(t)
	other.must()
	foreign := other.all()
	for name, tt := range map[string]struct {
		secret string
		change func(*corev1.Secret) // nil removes it
		about  string               // Secret that the error is about, if it is another one
		want   string
	}{
		"a broken signing key":           {bootstrap.Signing, garbage("signing.key"), "", "no key in PEM"},
		"a signing key that agents lack": {bootstrap.Signing, func(s *corev1.Secret) { s.Data = foreign[bootstrap.Signing].Data }, bootstrap.Trust, "agents refuse"},
		"a signing key of another kind":  {bootstrap.Signing, func(s *corev1.Secret) { s.Data["signing.key"] = foreign[bootstrap.CA].Data["tls.key"] }, "", "Ed25519"},
		"no signing key":                 {bootstrap.Signing, nil, bootstrap.Trust, "agents refuse"},
		"broken trusted keys":            {bootstrap.Trust, garbage("trusted.pem"), "", "agents refuse"},
		"no policy":                      {bootstrap.Access, without("policy.yaml"), "", "no key policy.yaml"},
		"no password":                    {bootstrap.AgentNATS, without("password"), "", "no key password"},
		"another password":               {bootstrap.AgentNATS, garbage("password"), bootstrap.NATSUsers, "AGENT_PASSWORD"},
		"a password that went":           {bootstrap.RegistryNATS, nil, bootstrap.NATSUsers, "REGISTRY_PASSWORD"},
		"a broken hash":                  {bootstrap.NATSUsers, garbage("REGISTRY_PASSWORD"), "", "REGISTRY_PASSWORD"},
		"a broken CA":                    {bootstrap.CA, garbage("tls.crt"), "", "PEM"},
		"a CA that is none":              {bootstrap.CA, func(s *corev1.Secret) { s.Data = foreign[bootstrap.AgentTLS].Data }, "", "not that of a CA"},
		"another CA":                     {bootstrap.CA, nil, bootstrap.AgentTLS, "did not sign"},
		"a broken certificate":           {bootstrap.AgentTLS, garbage("tls.crt"), "", "PEM"},
		"a key of another certificate":   {bootstrap.AgentTLS, func(s *corev1.Secret) { s.Data["tls.key"] = foreign[bootstrap.AgentTLS].Data["tls.key"] }, "", "does not match"},
		"a certificate without a CA":     {bootstrap.AgentTLS, without("ca.crt"), "", "no key ca.crt"},
		"another CA of etcd":             {bootstrap.EtcdCA, nil, bootstrap.EtcdTLS, "did not sign"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.must()
			if tt.change == nil {
				p.remove(tt.secret)
			} else {
				p.change(tt.secret, tt.change)
			}
			p.remove(bootstrap.AdminTLS)
			before := p.all()
			actions, err := p.run()
			about := tt.about
			if about == "" {
				about = tt.secret
			}
			if err == nil || !strings.Contains(err.Error(), "secret "+about+" in namespace "+p.namespace) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want %q about %s", err, tt.want, about)
			}
			if strings.Contains(err.Error(), "garbage") {
				t.Errorf("it shows what is in a Secret: %v", err)
			}
			if tt.secret != bootstrap.CA && actions[bootstrap.AdminTLS] != bootstrap.Made {
				t.Errorf("%v: what has nothing to do with it was not made", actions)
			}
			for name, s := range p.all() {
				if was, there := before[name]; there && was.ResourceVersion != s.ResourceVersion {
					t.Errorf("%s was written", name)
				}
			}
		})
	}
}

// refusing refuses to make one Secret, or all.
type refusing struct {
	bootstrap.Secrets
	name string // "" for all
	err  error
}

func (r refusing) Create(ctx context.Context, s *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error) {
	if r.name == "" || r.name == s.Name {
		return nil, r.err
	}
	return r.Secrets.Create(ctx, s, opts)
}

// TestARefusalIsOfOneSecret: the others are made none the less. If the API server does
// nothing at all, that is said once.
func TestARefusalIsOfOneSecret(t *testing.T) {
	p := newPlace(t)
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), bootstrap.Access, errors.New("a policy says no"))
	changes, err := bootstrap.Run(t.Context(), refusing{p.secrets, bootstrap.Access, forbidden}, p.opts)
	if err == nil || !strings.Contains(err.Error(), "a policy says no") {
		t.Errorf("%v, want what was refused", err)
	}
	if want := len(documented(t)) - 1; len(changes) != want || len(p.all()) != want {
		t.Errorf("%d were made, of %d: %v", len(changes), want, changes)
	}
	p = newPlace(t)
	changes, err = bootstrap.Run(t.Context(), refusing{p.secrets, "", apierrors.NewServiceUnavailable("it is restarting")}, p.opts)
	if err == nil || strings.Count(err.Error(), "it is restarting") != 1 || len(changes) != 0 {
		t.Errorf("%v and %v, want one error", changes, err)
	}
}
