package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Definition is a source as the file of the operator has it.
type Definition struct {
	Name    string
	Kind    script.GateKind
	URL     *url.URL
	Tenants script.Selector // who may use it
	// TokenFile has the bearer token that it is shown, CAFile the certificates of those who vouch
	// for it; "" for none, and for the system's.
	TokenFile, CAFile string
}

// Bounds of a file.
const (
	maxFileBytes = 1 << 20
	maxSources   = 32
)

// Load reads the file of sources; docs/security.md describes it. Errors are Invalid, and name the
// file and the field.
func Load(path string) ([]Definition, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	list, err := Parse(data)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "%w", err)
	}
	return list, nil
}

// entry is a source in the file.
type entry struct {
	Name              string   `yaml:"name"`
	Prometheus        string   `yaml:"prometheus"`
	Webhook           string   `yaml:"webhook"`
	Tenants           []string `yaml:"tenants"`
	TokenFile         string   `yaml:"tokenFile"`
	CAFile            string   `yaml:"caFile"`
	InsecurePlaintext bool     `yaml:"insecurePlaintext"`
}

// Parse reads sources in YAML. Errors name the field.
func Parse(data []byte) ([]Definition, error) {
	if len(data) > maxFileBytes {
		return nil, script.Errorf(script.Invalid, "", "has %d bytes, at most %d are allowed", len(data), maxFileBytes)
	}
	var file struct {
		Sources []entry `yaml:"sources"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, script.Errorf(script.Invalid, "", "cannot be read: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, script.Errorf(script.Invalid, "", "has more than one YAML document: put all sources into one")
	}
	if n := len(file.Sources); n == 0 || n > maxSources {
		return nil, script.Errorf(script.Invalid, "sources", "there are %d: want 1 to %d", n, maxSources)
	}
	list := make([]Definition, 0, len(file.Sources))
	for i, e := range file.Sources {
		d, err := e.definition(fmt.Sprintf("sources[%d]", i))
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

func (e entry) definition(at string) (d Definition, err error) {
	d = Definition{Name: e.Name, Kind: script.Prometheus, TokenFile: e.TokenFile, CAFile: e.CAFile}
	if err := script.ValidateLabel(at+".name", e.Name); err != nil {
		return d, err
	}
	address := e.Prometheus
	switch {
	case (e.Prometheus == "") == (e.Webhook == ""):
		return d, script.Errorf(script.Invalid, at, "want the URL of a %s or of a %s, and one of them", script.Prometheus, script.Webhook)
	case e.Webhook != "":
		d.Kind, address = script.Webhook, e.Webhook
	}
	if len(e.Tenants) == 0 {
		return d, script.Errorf(script.Invalid, at+".tenants", `is missing: name the tenants that may use it, or write ["*"] for all`)
	}
	if d.Tenants, err = script.ParseSelector(e.Tenants); err != nil {
		return d, script.Errorf(script.Invalid, at, "%w", err)
	}
	d.URL, err = e.url(at+"."+string(d.Kind), address)
	return d, err
}

// url refuses an address that somebody on the way could answer for, unless the operator wants it.
func (e entry) url(at, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, script.Errorf(script.Invalid, at, "%.80q is no URL: want https://HOST", address)
	case u.User != nil:
		return nil, script.Errorf(script.Invalid, at, "has a user: put a bearer token into a file, and name that in tokenFile")
	case u.Fragment != "" || e.Prometheus != "" && u.RawQuery != "":
		return nil, script.Errorf(script.Invalid, at, "ends with a query or a fragment: leave them out")
	case u.Scheme == "http" && e.CAFile != "":
		return nil, script.Errorf(script.Invalid, at, "is not encrypted, so caFile has no use: write https://")
	case u.Scheme == "http" && !e.InsecurePlaintext:
		return nil, script.Errorf(script.Invalid, at, "is not encrypted, and whoever is on the way decides what goes live: write https://, or accept it with insecurePlaintext: true")
	}
	return u, nil
}
