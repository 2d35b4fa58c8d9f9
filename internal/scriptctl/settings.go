package scriptctl

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/internal/contexts"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	configVariable  = "SCRIPTCTL_CONFIG"
	contextVariable = "SCRIPTORIUM_CONTEXT"
)

// sourced is a value, and where it is from.
type sourced struct{ value, from string }

// settings say how the registry is connected to.
type settings struct {
	registry, ca, cert, key, tokenFile, token sourced
	plaintext                                 bool
	kube                                      *kubeSettings // nil without a cluster
	tenant                                    string        // of scripts that are named without one; "" for none
}

// kubeSettings is the way through a cluster, and what selected it.
type kubeSettings struct {
	contexts.Kube
	from string
}

// configPath returns where the configuration is, and whether somebody said so.
func (a *app) configPath() (path string, named bool, err error) {
	if path = cmp.Or(a.config, os.Getenv(configVariable)); path != "" {
		return path, true, nil
	}
	path, err = contexts.DefaultPath()
	return path, false, err
}

// loadConfig returns the configuration, and its path. Without a file it is empty, but a file that
// somebody named has to be there if mustExist.
func (a *app) loadConfig(mustExist bool) (*contexts.File, string, error) {
	path, named, err := a.configPath()
	if err != nil {
		return &contexts.File{}, "", err
	}
	file, err := contexts.Load(path)
	if contexts.Missing(err) && (!named || !mustExist) {
		return &contexts.File{}, path, nil
	}
	if err != nil && named {
		err = fmt.Errorf("%w (the file is from %s)", err, cmp.Or(flagIf(a.config, "--config"), configVariable))
	}
	return file, path, err
}

func flagIf(value, flag string) string {
	if value == "" {
		return ""
	}
	return flag
}

// selected is the context in use: its values, and whether it was named for this command.
type selected struct {
	contexts.Context
	from  string // as errors say it
	named bool
}

// context returns the context in use; one without a name if there is none.
func (a *app) context() (selected, error) {
	if a.byKubectl {
		return selected{}, nil
	}
	file, path, err := a.loadConfig(true)
	if err != nil && path != "" {
		return selected{}, err
	}
	name, from := a.contextName, "--context"
	if name == "" {
		name, from = os.Getenv(contextVariable), contextVariable
	}
	if name == "" {
		name, from = file.Current, "currentContext of "+path
	}
	if name == "" {
		return selected{}, nil
	}
	c, err := file.Get(name)
	if err != nil {
		return selected{}, script.Errorf(script.NotFound, from, "%s (in %s)", script.AsError(err).Message, path)
	}
	s := selected{Context: *c, from: "the context " + name + " in " + path, named: a.contextName != ""}
	for _, p := range []*string{&s.CA, &s.Cert, &s.Key, &s.TokenFile} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(filepath.Dir(path), *p)
		}
	}
	return s, nil
}

// settings returns how the registry is connected to: of each value, the flag wins over the
// environment, that over the context, and that over the default. A context that --context names is
// as good as flags: its values win over the environment. The credentials of the current context
// go to no other registry than its own, and neither do those of the environment if --context or the
// way through a cluster selects another one.
func (a *app) settings() (*settings, error) {
	if a.resolved != nil {
		return a.resolved, nil
	}
	c, err := a.context()
	if err != nil {
		return nil, err
	}
	getenv := os.Getenv
	pick := func(flag, value, variable, inContext string) sourced {
		environment := sourced{getenv(variable), variable}
		of := sourced{inContext, c.from}
		order := []sourced{{value, flag}, environment, of}
		if c.named {
			order = []sourced{{value, flag}, of, environment}
		}
		for _, s := range order {
			if s.value != "" {
				return s
			}
		}
		return sourced{}
	}
	s := &settings{tenant: c.Tenant}
	s.registry = pick("--registry", a.registry, "SCRIPTORIUM_REGISTRY", c.Registry)
	if s.kube, err = a.kubeSettings(&c, s.registry); err != nil {
		return nil, err
	}
	if own := s.registry.from == c.from || s.kube != nil && s.kube.from == c.from; !own && !c.named {
		c.CA, c.Cert, c.Key, c.TokenFile, c.InsecurePlaintext = "", "", "", "", false
	}
	if own := os.Getenv("SCRIPTORIUM_REGISTRY"); own != "" && a.registry == "" && (s.kube != nil || s.registry.value != own) {
		getenv = func(string) string { return "" }
	}
	s.ca = pick("--ca", a.caller.CA, "SCRIPTORIUM_CA", c.CA)
	s.cert = pick("--cert", a.caller.Cert, "SCRIPTORIUM_CERT", c.Cert)
	s.key = pick("--key", a.caller.Key, "SCRIPTORIUM_KEY", c.Key)
	s.tokenFile = pick("--token-file", a.caller.TokenFile, "SCRIPTORIUM_TOKEN_FILE", c.TokenFile)
	if s.tokenFile.from != "--token-file" && (!c.named || c.TokenFile == "") {
		if s.token = (sourced{getenv("SCRIPTORIUM_TOKEN"), "SCRIPTORIUM_TOKEN"}); s.token.value != "" {
			s.tokenFile = sourced{}
		}
	}
	if s.plaintext, err = a.plaintext(&c, getenv(plaintextVariable)); err != nil {
		return nil, err
	}
	a.resolved = s
	return s, nil
}

// kubeSettings returns the way through a cluster; nil if the registry is reached directly.
func (a *app) kubeSettings(c *selected, registry sourced) (*kubeSettings, error) {
	if a.kube.context != "" && !a.byKubectl && c.Kube == nil {
		a.kube.on = true
	}
	k := &kubeSettings{from: "--kube"}
	if c.Kube != nil {
		k.Kube = *c.Kube
	}
	switch {
	case a.kube.on && a.registry != "":
		return nil, script.Errorf(script.Invalid, "--kube", "and --registry are two ways to a registry: take one")
	case a.kube.on:
	case c.Kube != nil && (registry.value == "" || c.named && a.registry == ""):
		k.from = c.from
	case a.byKubectl && a.registry == "":
		k.from = programKubectl
	default:
		return nil, nil
	}
	k.Namespace = cmp.Or(a.kube.namespace, k.Namespace)
	k.Context = cmp.Or(a.kube.context, k.Context)
	return k, nil
}

// plaintext reports whether the connection may go without TLS. text is what the environment says.
func (a *app) plaintext(c *selected, text string) (bool, error) {
	if a.plain || c.named && c.InsecurePlaintext {
		return true, nil
	}
	if text == "" {
		return c.InsecurePlaintext, nil
	}
	allowed, err := strconv.ParseBool(text)
	if err != nil {
		return false, script.Errorf(script.Invalid, plaintextVariable, "is %q; want true or false", text)
	}
	return allowed, nil
}

// callerOf returns the credentials.
func (s *settings) callerOf() security.Caller {
	return security.Caller{CA: s.ca.value, Cert: s.cert.value, Key: s.key.value, TokenFile: s.tokenFile.value, Token: s.token.value}
}

// named adds to an error about the files of the credentials where their names are from.
func (s *settings) named(err error) error {
	text := ""
	for _, o := range []struct {
		name string
		sourced
	}{{"ca", s.ca}, {"cert", s.cert}, {"key", s.key}, {"token file", s.tokenFile}} {
		if o.value == "" || strings.HasPrefix(o.from, "--") {
			continue // the error names the flag
		}
		if text != "" {
			text += ", "
		}
		text += o.name + " from " + o.from
	}
	if text == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, text)
}

// withTenant returns the name of a script, or of a key, with the tenant of the context if it has none.
func (a *app) withTenant(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	if s, err := a.settings(); err == nil && s.tenant != "" { // connect says the error
		return s.tenant + "/" + name
	}
	return name
}
