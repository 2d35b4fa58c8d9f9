package imports

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"

	kyaml "sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// ArgoCD reads a folder of Argo CD's resource customizations: GROUP/KIND/health.lua with health_test.yaml, and
// GROUP/KIND/actions with discovery.lua, ACTION/action.lua and action_test.yaml.
func ArgoCD(dir, tenant string) (*Bundle, error) {
	b, err := inFolder(dir, tenant)
	if err != nil {
		return nil, err
	}
	defer b.close()
	b.uncompared = argoUncompared
	healths, err := find(dir, "health.lua")
	if err != nil {
		return nil, err
	}
	for _, file := range healths {
		b.argoHealth(file)
	}
	discoveries, err := find(dir, "discovery.lua")
	if err != nil {
		return nil, err
	}
	for _, file := range discoveries {
		b.argoActions(file)
	}
	if len(healths)+len(discoveries) == 0 {
		return nil, script.Errorf(script.NotFound, dir, "has no health.lua and no discovery.lua: name a folder of resource_customizations")
	}
	return b, nil
}

// argoName returns the group and the kind of the folder.
func argoName(dir string) (group, kind string) {
	return filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
}

func (b *Bundle) argoHealth(file string) {
	dir := filepath.Dir(file)
	group, kind := argoName(dir)
	s := b.add(label(group, kind, "health"), file)
	tests := filepath.Join(dir, "health_test.yaml")
	var doc struct {
		Tests []struct {
			InputPath    string `json:"inputPath"`
			HealthStatus struct {
				Status  string `json:"status"`
				Message string `json:"message"`
			} `json:"healthStatus"`
		} `json:"tests"`
	}
	data, ok := b.readTests(tests, &doc)
	if s == nil || !ok {
		return
	}
	at := lines(data, "tests")
	for i, t := range doc.Tests {
		expect := map[string]string{"status": t.HealthStatus.Status}
		if t.HealthStatus.Message != "" { // else Argo CD takes any script's nil for it
			expect["message"] = t.HealthStatus.Message
		}
		b.argoCase(s, tests, lineOf(at, i), t.InputPath, t.InputPath, nil, func(c *manifest.TestCase) error { return set(&c.Expect, expect) })
	}
}

// readTests reads a file with tests; ok is false if there are none.
func (b *Bundle) readTests(path string, doc any) (data []byte, ok bool) {
	data, err := b.read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false
	case err != nil:
		b.leave(path, 0, "cannot be read: %v", err)
		return nil, false
	}
	if err := kyaml.Unmarshal(data, doc); err != nil {
		b.leave(path, 0, "is no file of tests: %v", err)
		return nil, false
	}
	return data, true
}

// argoCase adds a case with the resource of a file.
func (b *Bundle) argoCase(s *Script, tests string, line int, name, input string, params map[string]string, expect func(c *manifest.TestCase) error) {
	resource, err := b.object(filepath.Join(filepath.Dir(tests), filepath.FromSlash(input)))
	if err != nil {
		b.leave(tests, line, "the resource %s cannot be read: %v", input, err)
		return
	}
	globals := map[string]any{"obj": resource}
	if params != nil {
		globals["actionParams"] = params
	}
	c := manifest.TestCase{Name: name, File: tests, Line: line, Args: make([]json.RawMessage, 1)}
	if err := set(&c.Args[0], globals); err != nil {
		b.leave(tests, line, "%v", err)
		return
	}
	if err := expect(&c); err != nil {
		b.leave(tests, line, "what is expected cannot be read: %v", err)
		return
	}
	s.addCase(c)
}

func set(to *json.RawMessage, value any) (err error) {
	*to, err = json.Marshal(value)
	return err
}

// argoTests is a file of tests of actions.
type argoTests struct {
	Discovery []struct {
		InputPath string `json:"inputPath"`
		Result    []struct {
			Name     string `json:"name"`
			Disabled bool   `json:"disabled"`
		} `json:"result"`
	} `json:"discoveryTests"`
	Actions []struct {
		Action             string            `json:"action"`
		InputPath          string            `json:"inputPath"`
		ExpectedOutputPath string            `json:"expectedOutputPath"`
		Parameters         map[string]string `json:"parameters"`
	} `json:"actionTests"`
}

func (b *Bundle) argoActions(discovery string) {
	dir := filepath.Dir(discovery)
	group, kind := argoName(filepath.Dir(dir))
	found := b.add(label(group, kind, "actions"), discovery)
	actions := map[string]*Script{}
	for _, file := range glob(dir, "*/action.lua") {
		name := filepath.Base(filepath.Dir(file))
		actions[name] = b.add(label(group, kind, "action", name), file)
	}
	tests := filepath.Join(dir, "action_test.yaml")
	var doc argoTests
	data, ok := b.readTests(tests, &doc)
	if !ok {
		return
	}
	if at := lines(data, "discoveryTests"); found != nil {
		for i, t := range doc.Discovery {
			expect := map[string]any{}
			for _, r := range t.Result {
				expect[r.Name] = map[string]bool{}
				if r.Disabled { // one that is not may say so, or nothing
					expect[r.Name] = map[string]bool{"disabled": true}
				}
			}
			b.argoCase(found, tests, lineOf(at, i), t.InputPath, t.InputPath, nil, func(c *manifest.TestCase) error { return set(&c.Expect, expect) })
		}
	}
	at := lines(data, "actionTests")
	for i, t := range doc.Actions {
		s := actions[t.Action]
		if s == nil {
			b.leave(tests, lineOf(at, i), "there is no action %s", t.Action)
			continue
		}
		b.argoCase(s, tests, lineOf(at, i), t.InputPath, t.InputPath, t.Parameters, func(c *manifest.TestCase) (err error) {
			c.Exactly, err = b.argoOutput(filepath.Join(dir, filepath.FromSlash(t.ExpectedOutputPath)))
			return err
		})
	}
}

// argoOutput reads what an action is expected to return: a resource, or a list of operations with their resources.
func (b *Bundle) argoOutput(path string) (json.RawMessage, error) {
	text, err := b.object(path)
	if err != nil || len(text) == 0 || text[0] != '[' {
		return text, err
	}
	var operations []struct {
		Operation string          `json:"k8sOperation"`
		Resource  json.RawMessage `json:"unstructuredObj"`
	}
	if err := json.Unmarshal(text, &operations); err != nil {
		return nil, err
	}
	returned := []map[string]any{} // as the script does
	for _, o := range operations {
		returned = append(returned, map[string]any{"operation": o.Operation, "resource": o.Resource})
	}
	text, err = json.Marshal(returned)
	return text, err
}

// argoCreated is the metadata of a resource that an action creates. Argo CD's tests do not compare it for Jobs and
// Workflows, because their names hold times.
var argoCreated = regexp.MustCompile(`^/\d+/resource/metadata(/|$)`)

// argoUncompared reports whether Argo CD's tests do not compare the part: members that are not expected, and argoCreated.
func argoUncompared(d jsonvalue.Difference) bool {
	return d.From == nil || argoCreated.MatchString(d.Pointer)
}
