package otelenv

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

func invalid(format string, args ...any) error {
	return script.Errorf(script.Invalid, "", format, args...)
}

func isBool(value string) error {
	if !slices.Contains([]string{"true", "false"}, strings.ToLower(value)) {
		return invalid("%.80q is neither true nor false", value)
	}
	return nil
}

func isURL(value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return invalid("is no address of a collector: want http://HOST:PORT, or https://HOST:PORT for TLS") // without the value, which may hold a secret
	}
	return nil
}

// isHeaders returns errors without the value, which may be a secret.
func isHeaders(value string) error {
	for pair := range strings.SplitSeq(value, ",") {
		name, text, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(text); !ok || err != nil || strings.TrimSpace(name) == "" || strings.ContainsAny(strings.TrimSpace(name), " \t\r\n\"(),/:;<=>?@[\\]{}") {
			return invalid("is no list of headers: want NAME=VALUE,…, the values with %% escapes")
		}
	}
	return nil
}

func isPairs(value string) error {
	for pair := range strings.SplitSeq(value, ",") {
		name, text, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(text); !ok || err != nil || strings.TrimSpace(name) == "" {
			return invalid("%.80q is no attribute: want NAME=VALUE,…, the values with %% escapes", pair)
		}
	}
	return nil
}

func isCompression(value string) error {
	if value != "gzip" && value != "none" {
		return invalid("%.80q is no compression that is known here: want gzip or none", value)
	}
	return nil
}

func isPositive(value string) error {
	if n, err := strconv.Atoi(value); err != nil || n <= 0 {
		return invalid("%.80q is no number above 0", value)
	}
	return nil
}

func isCertificates(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return invalid("cannot be read: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		return invalid("%.200s has no certificates in PEM", path)
	}
	return nil
}

func isKeyPair(certVariable, keyVariable string) error {
	cert, key := Variable(certVariable), Variable(keyVariable)
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return script.Errorf(script.Invalid, certVariable, "and %s belong together: set both, or none", keyVariable)
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return script.Errorf(script.Invalid, certVariable, "cannot be used with %s: %w", keyVariable, err)
	}
	return nil
}
