package validate_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/issuer"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestServiceAccountTokens: a registry knows pods by the tokens of their service accounts, with
// the keys of the API server.
func TestServiceAccountTokens(t *testing.T) {
	ns := env.Namespace(t, "tokens", nil)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	url := strings.TrimSuffix(env.Config.Host, "/")
	policyText := fmt.Sprintf(`
issuers:
  - name: cluster
    url: %q
    audiences: [scriptorium]
    keysURL: %s/openid/v1/jwks
    caFile: %s
    tokenFile: %s
subjects:
  - name: agents
    jwts: [{issuer: cluster, subject: "system:serviceaccount:%s:agent"}]
    grants: [{roles: [read], tenants: ["*"]}]
`, issuerOf(t, serviceAccountToken(t, ns, "registry")), url,
		write("ca.crt", env.Config.CAData), write("token", []byte(serviceAccountToken(t, ns, "registry"))), ns)

	keys := issuer.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	policy, err := access.Parse("policy.yaml", []byte(policyText), keys)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { keys.Run(t.Context(), policy.Issuers) })
	t.Cleanup(running.Wait)

	token := serviceAccountToken(t, ns, "agent", "scriptorium")
	var who access.Identity
	for err = script.Errorf(script.Unavailable, "", "not asked yet"); script.KindOf(err) == script.Unavailable; {
		who, err = policy.Identify(access.Credentials{Token: token}, time.Now())
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if want := "agents(system:serviceaccount:" + ns + ":agent)"; err != nil || who.Name != want || time.Until(who.Expires) <= 0 {
		t.Errorf("%+v, %v, want %s", who, err, want)
	}
	for name, other := range map[string]string{
		"another service account": serviceAccountToken(t, ns, "other", "scriptorium"),
		"another audience":        serviceAccountToken(t, ns, "agent", "vault"),
		"the API server's":        serviceAccountToken(t, ns, "agent"),
	} {
		if who, err := policy.Identify(access.Credentials{Token: other}, time.Now()); script.KindOf(err) != script.Denied {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}

// serviceAccountToken returns a token of the service account, which it makes if there is none.
func serviceAccountToken(t *testing.T, namespace, name string, audiences ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := env.Client.Create(t.Context(), account); err != nil && !strings.Contains(err.Error(), "already exists") {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := env.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// issuerOf returns the claim "iss".
func issuerOf(t *testing.T, token string) string {
	t.Helper()
	var claims struct {
		Issuer string `json:"iss"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	return claims.Issuer
}
