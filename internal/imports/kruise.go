package imports

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	kyaml "sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Kruise reads a folder of OpenKruise Rollouts' lua_configuration: GROUP/KIND/trafficRouting.lua with test cases in
// testdata, and scripts of trafficrouting_ingress, which have none.
func Kruise(dir, tenant string) (*Bundle, error) {
	b, err := inFolder(dir, tenant)
	if err != nil {
		return nil, err
	}
	defer b.close()
	routes, err := find(dir, "trafficRouting.lua")
	if err != nil {
		return nil, err
	}
	for _, file := range routes {
		group, kind := argoName(filepath.Dir(file))
		s := b.add(label(group, kind, "route"), file)
		if s == nil {
			continue
		}
		for _, path := range glob(filepath.Dir(file), "testdata/*.y*ml") {
			b.kruiseCases(s, path)
		}
	}
	ingresses := glob(dir, "trafficrouting_ingress/*.lua")
	for _, file := range ingresses {
		b.add(label("ingress", strings.TrimSuffix(filepath.Base(file), ".lua")), file)
	}
	if len(routes)+len(ingresses) == 0 {
		return nil, script.Errorf(script.NotFound, dir, "has no trafficRouting.lua: name a folder of lua_configuration")
	}
	return b, nil
}

// kruiseStep is a step of a rollout, as far as scripts see it.
type kruiseStep struct {
	Weight  *int32          `json:"weight"`
	Traffic *string         `json:"traffic"`
	Matches json.RawMessage `json:"matches"`
}

// kruiseRefs name a service.
type kruiseRefs []struct {
	Service string `json:"service"`
}

// kruiseTest is a test case.
type kruiseTest struct {
	Rollout *struct {
		Spec struct {
			Strategy struct {
				Canary struct {
					Steps           []kruiseStep `json:"steps"`
					TrafficRoutings kruiseRefs   `json:"trafficRoutings"`
				} `json:"canary"`
			} `json:"strategy"`
		} `json:"spec"`
	} `json:"rollout"`
	TrafficRouting *struct {
		Spec struct {
			ObjectRef kruiseRefs `json:"objectRef"`
			Strategy  kruiseStep `json:"strategy"`
		} `json:"spec"`
	} `json:"trafficRouting"`
	Original kruiseObject   `json:"original"`
	Expected []kruiseObject `json:"expected"`
}

// kruiseObject is a resource, as far as scripts see it.
type kruiseObject struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`
}

// data is what a script gets and returns of the resource.
func (o *kruiseObject) data() map[string]any {
	all := map[string]any{"spec": o.Spec}
	if o.Metadata.Labels != nil {
		all["labels"] = o.Metadata.Labels
	}
	if o.Metadata.Annotations != nil {
		all["annotations"] = o.Metadata.Annotations
	}
	return all
}

func (b *Bundle) kruiseCases(s *Script, path string) {
	data, err := b.read(path)
	if err != nil {
		b.leave(path, 0, "cannot be read: %v", err)
		return
	}
	var t kruiseTest
	if err := kyaml.Unmarshal(data, &t); err != nil {
		b.leave(path, 0, "is no test case: %v", err)
		return
	}
	steps, service, canary, err := t.steps()
	if err != nil {
		b.leave(path, 0, "%v", err)
		return
	}
	at, expected := lines(data, "rollout", "spec", "strategy", "canary", "steps"), lines(data, "expected")
	for i, step := range steps {
		if i >= len(t.Expected) {
			b.leave(path, lineOf(at, i), "step %d has no expected resource", i+1)
			continue
		}
		weight, err := step.weight()
		if err != nil {
			b.leave(path, lineOf(at, i), "step %d: %v", i+1, err)
			continue
		}
		obj := map[string]any{
			"data": t.Original.data(), "canaryWeight": weight, "stableWeight": 100 - weight, "canaryService": canary, "stableService": service,
		}
		if step.Matches != nil {
			obj["matches"] = step.Matches
		}
		c := manifest.TestCase{File: path, Line: lineOf(expected, i), Args: make([]json.RawMessage, 1)}
		c.Name = fmt.Sprintf("%s, step %d", strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), i+1)
		if err := set(&c.Args[0], map[string]any{"obj": obj}); err != nil {
			b.leave(path, 0, "%v", err)
			continue
		}
		if err := set(&c.Exactly, t.Expected[i].data()); err != nil {
			b.leave(path, c.Line, "%v", err)
			continue
		}
		s.addCase(c)
	}
}

// steps returns the steps of the case, and the names of the services.
func (t *kruiseTest) steps() (steps []kruiseStep, service, canary string, err error) {
	switch {
	case t.Rollout != nil:
		plan := &t.Rollout.Spec.Strategy.Canary
		if len(plan.TrafficRoutings) == 0 {
			return nil, "", "", fmt.Errorf("the rollout has no trafficRoutings")
		}
		service = plan.TrafficRoutings[0].Service
		return plan.Steps, service, service + "-canary", nil
	case t.TrafficRouting != nil:
		if len(t.TrafficRouting.Spec.ObjectRef) == 0 {
			return nil, "", "", fmt.Errorf("the trafficRouting has no objectRef")
		}
		service = t.TrafficRouting.Spec.ObjectRef[0].Service
		return []kruiseStep{t.TrafficRouting.Spec.Strategy}, service, service, nil
	}
	return nil, "", "", fmt.Errorf("there is neither a rollout nor a trafficRouting")
}

// weight returns the canary's weight; -1 if the step has none.
func (s *kruiseStep) weight() (int, error) {
	switch {
	case s.Weight != nil:
		return int(*s.Weight), nil
	case s.Traffic != nil:
		weight, err := strconv.Atoi(strings.TrimSuffix(*s.Traffic, "%"))
		if err != nil {
			return 0, fmt.Errorf("the traffic %q is no percentage", *s.Traffic)
		}
		return weight, nil
	}
	return -1, nil
}
