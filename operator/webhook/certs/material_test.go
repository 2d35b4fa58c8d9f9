package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"strings"
	"testing"
	"time"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hosts = []string{"scriptorium-operator.scriptorium-system.svc", "127.0.0.1"}
)

const day = 24 * time.Hour

func mustNext(t *testing.T, data map[string][]byte, now time.Time) (map[string][]byte, string) {
	t.Helper()
	out, why, err := next(data, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	return out, why
}

// believes returns why whoever has the bundle does not believe the certificate; nil if
// they do.
func believes(t *testing.T, bundle, cert []byte, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	pair, err := tls.X509KeyPair(cert, cert)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}

// pairOf returns certificate and key of data in one piece.
func pairOf(data map[string][]byte) []byte {
	return append(bytes.Clone(data[certKey]), data[privateKey]...)
}

// Over years, in steps of all sizes, whoever has not seen the new CAs yet believes what
// is shown now, and who has seen them what another replica still shows.
func TestRotation(t *testing.T) {
	for _, tt := range []struct {
		step        time.Duration
		from, until time.Duration // before that, a step is a day
	}{
		{20 * time.Minute, 244 * day, 247 * day},
		{7 * time.Hour, 0, 300 * day},
		{9 * day, 0, 3 * 365 * day},
	} {
		data, why := mustNext(t, nil, start)
		if why != "there is no CA; there is no certificate" {
			t.Errorf("at first: %q", why)
		}
		renewals, cas, most := 0, 0, 0
		for age := time.Duration(0); age < tt.until; {
			now, before := start.Add(age), data
			age += tt.step
			if age < tt.from {
				age += day - tt.step
			}
			if data, why = mustNext(t, before, now); why == "" {
				continue
			}
			renewals++
			if strings.Contains(why, "the CA ends") {
				cas++
			}
			most = max(most, bytes.Count(data[bundleKey], []byte("BEGIN")))
			for who, seen := range map[string][2]map[string][]byte{
				"all that is new":                 {data, data},
				"who has not seen the new CA yet": {before, data},
				"what another replica shows yet":  {data, before},
			} {
				if err := believes(t, seen[0][bundleKey], pairOf(seen[1]), now); err != nil {
					t.Errorf("every %v, at %v: %q: %s: %v", tt.step, now, why, who, err)
				}
			}
			if _, why := mustNext(t, data, now); why != "" {
				t.Errorf("renewed again at once: %q", why)
			}
		}
		if cas == 0 || renewals < 2*cas || most > 2 {
			t.Errorf("every %v: %d renewals, %d CAs, up to %d at once", tt.step, renewals, cas, most)
		}
	}
}

func TestWhatIsBrokenIsMadeAgain(t *testing.T) {
	good, _ := mustNext(t, nil, start)
	other, _ := mustNext(t, nil, start)
	now := start.Add(2 * time.Hour)
	for name, tt := range map[string]struct {
		change map[string][]byte
		why    string
		keeps  []string
	}{
		"nothing":               {why: "", keeps: []string{bundleKey, caKey, certKey, privateKey}},
		"no certificate":        {map[string][]byte{certKey: nil}, "there is no certificate", []string{bundleKey, caKey}},
		"another key":           {map[string][]byte{privateKey: other[privateKey]}, "there is no certificate", []string{bundleKey, caKey}},
		"another's certificate": {map[string][]byte{certKey: other[certKey], privateKey: other[privateKey]}, "the certificate is of another CA", []string{bundleKey, caKey}},
		// The old CA is believed on, and its certificate shown for the time being.
		"no CA key":      {map[string][]byte{caKey: []byte("x")}, "the CA's key is not there", []string{certKey, privateKey}},
		"another CA key": {map[string][]byte{caKey: other[caKey]}, "the CA's key is not there", []string{certKey, privateKey}},
		"no CA":          {map[string][]byte{bundleKey: []byte("no PEM")}, "there is no CA; the certificate is of another CA", nil},
		"no CA at all":   {map[string][]byte{bundleKey: good[certKey]}, "there is no CA; the certificate is of another CA", nil},
	} {
		data := maps.Clone(good)
		maps.Copy(data, tt.change)
		got, why := mustNext(t, data, now)
		if why != tt.why {
			t.Errorf("%s: %q, want %q", name, why, tt.why)
		}
		for _, key := range tt.keeps {
			if !bytes.Equal(got[key], data[key]) {
				t.Errorf("%s: %s was changed", name, key)
			}
		}
		if err := believes(t, got[bundleKey], pairOf(got), now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, why, err := next(good, append(hosts, "another.svc"), now)
	if err != nil || why != "the certificate is not for another.svc" {
		t.Errorf("another name: %q, %v", why, err)
	}
}

// After a long sleep everything has ended, and is made again.
func TestEverythingHasEnded(t *testing.T) {
	data, _ := mustNext(t, nil, start)
	now := start.Add(800 * day)
	data, why := mustNext(t, data, now)
	if why != "there is no CA; the certificate has ended" {
		t.Error(why)
	}
	if err := believes(t, data[bundleKey], pairOf(data), now); err != nil {
		t.Error(err)
	}
}
