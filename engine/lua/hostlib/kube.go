package hostlib

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/quantity"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// KubeLibrary is what scripts for Karmada require: require("kube"). It is no global.
const KubeLibrary = "kube"

// Kube returns the library.
func Kube() values.Module {
	return values.Module{Name: KubeLibrary, Functions: map[string]vm.LGFunction{
		"resourceAdd":             kubeResourceAdd,
		"accuratePodRequirements": kubeRequirements,
		"getPodDependencies":      kubeDependencies,
	}}
}

// quantityInstructions is what reading, adding and writing a quantity costs.
const quantityInstructions = 20

// kubeResourceAdd returns the sum of quantities. nil is 0.
func kubeResourceAdd(l *vm.LState) int {
	var sum quantity.Quantity
	for i := 1; i <= l.GetTop(); i++ {
		if l.Get(i) == vm.LNil {
			continue
		}
		l.Charge(quantityInstructions)
		q, err := quantity.Parse(bind.ArgString(l, i))
		if err != nil {
			bind.ArgError(l, i, err.Error())
		}
		sum.Add(q)
	}
	text := sum.String()
	bind.AllocateString(l, len(text))
	return l.Return(vm.LString(text))
}

// quantities are amounts by the names of resources.
type quantities map[string]amount

// amount is a quantity as a manifest writes it: text, or a number.
type amount string

// UnmarshalJSON implements json.Unmarshaler.
func (a *amount) UnmarshalJSON(text []byte) error {
	var n json.Number // takes numbers alone
	if text[0] != '"' {
		err := json.Unmarshal(text, &n)
		*a = amount(n)
		return err
	}
	return json.Unmarshal(text, (*string)(a))
}

// container of a pod.
type container struct {
	Resources struct {
		Requests quantities `json:"requests"`
		Limits   quantities `json:"limits"`
	} `json:"resources"`
	RestartPolicy string `json:"restartPolicy"`
	Env           []struct {
		ValueFrom struct {
			ConfigMap reference `json:"configMapKeyRef"`
			Secret    reference `json:"secretKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
	EnvFrom []struct {
		ConfigMap reference `json:"configMapRef"`
		Secret    reference `json:"secretRef"`
	} `json:"envFrom"`
}

// reference names an object.
type reference struct {
	Name string `json:"name"`
}

// volume of a pod, as far as it names other objects.
type volume struct {
	ConfigMap reference `json:"configMap"`
	Secret    struct {
		Name string `json:"secretName"`
	} `json:"secret"`
	Claim struct {
		Name string `json:"claimName"`
	} `json:"persistentVolumeClaim"`
	Projected struct {
		Sources []struct {
			ConfigMap reference `json:"configMap"`
			Secret    reference `json:"secret"`
		} `json:"sources"`
	} `json:"projected"`
	CSI struct {
		Secret reference `json:"nodePublishSecretRef"`
	} `json:"csi"`
}

// podTemplate is what the library reads of one.
type podTemplate struct {
	Spec struct {
		Containers       []container       `json:"containers"`
		InitContainers   []container       `json:"initContainers"`
		Overhead         quantities        `json:"overhead"`
		NodeSelector     map[string]string `json:"nodeSelector"`
		Tolerations      []json.RawMessage `json:"tolerations"`
		PriorityClass    string            `json:"priorityClassName"`
		ServiceAccount   string            `json:"serviceAccountName"`
		ImagePullSecrets []reference       `json:"imagePullSecrets"`
		Volumes          []volume          `json:"volumes"`
		Affinity         struct {
			Node struct {
				Required json.RawMessage `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `json:"nodeAffinity"`
		} `json:"affinity"`
	} `json:"spec"`
}

// argPodTemplate reads the first argument.
func argPodTemplate(l *vm.LState) *podTemplate {
	c := bind.CallOf(l)
	e := luajson.NewEncoder(&c.JSON, c.Host.StringBytes, "the template")
	text, err := e.Value(nil, bind.ArgTable(l))
	bind.AllocateString(l, len(text))
	if err != nil {
		bind.Raise(l, e.Fail(err, "the template"))
	}
	if bytes.Contains(text, []byte("null")) {
		text = withoutNulls(text)
	}
	var t podTemplate
	if err := json.Unmarshal(text, &t); err != nil {
		bind.ArgError(l, 1, "is no template of a pod: "+hostapi.Clip(err.Error()))
	}
	return &t
}

// withoutNulls returns the JSON without members and elements that are null: they are not there, as for Karmada's scripts.
func withoutNulls(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var all any
	if d.Decode(&all) != nil { // impossible: it was just encoded
		return text
	}
	less, err := json.Marshal(lessNulls(all))
	if err != nil {
		return text
	}
	return less
}

func lessNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, member any) bool { return member == nil })
		for name, member := range v {
			v[name] = lessNulls(member)
		}
	case []any:
		v = slices.DeleteFunc(v, func(element any) bool { return element == nil })
		for i := range v {
			v[i] = lessNulls(v[i])
		}
		return v
	}
	return value
}

// pushJSON returns a value as a table.
func pushJSON(l *vm.LState, value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		l.RaiseError("the result has no JSON: %s", err.Error())
	}
	bind.AllocateString(l, len(text))
	return bind.PushJSON(l, string(text), "the result has no table")
}

// kubeRequirements returns what a pod of the template needs of a node.
func kubeRequirements(l *vm.LState) int {
	t := argPodTemplate(l)
	type nodeClaim struct {
		Affinity    json.RawMessage   `json:"hardNodeAffinity,omitempty"`
		Selector    map[string]string `json:"nodeSelector,omitempty"`
		Tolerations []json.RawMessage `json:"tolerations,omitempty"`
	}
	needs := struct {
		NodeClaim       *nodeClaim `json:"nodeClaim,omitempty"`
		ResourceRequest quantities `json:"resourceRequest,omitempty"`
		PriorityClass   string     `json:"priorityClassName,omitempty"`
	}{ResourceRequest: t.requests(l), PriorityClass: t.Spec.PriorityClass}
	claim := nodeClaim{t.Spec.Affinity.Node.Required, t.Spec.NodeSelector, t.Spec.Tolerations}
	if len(claim.Affinity)+len(claim.Selector)+len(claim.Tolerations) > 0 {
		needs.NodeClaim = &claim
	}
	return pushJSON(l, needs)
}

// requests returns the resources that a pod needs: those of its containers together, at least those of each init
// container, and the overhead.
func (t *podTemplate) requests(l *vm.LState) quantities {
	sums := map[string]*quantity.Quantity{}
	t.each(l, t.Spec.Containers, func(name string, q *quantity.Quantity) {
		if sums[name] == nil {
			sums[name] = &quantity.Quantity{}
		}
		sums[name].Add(q)
	})
	t.each(l, t.Spec.InitContainers, func(name string, q *quantity.Quantity) {
		if sums[name] == nil || sums[name].Cmp(q) < 0 {
			sums[name] = q
		}
	})
	for name, text := range t.Spec.Overhead {
		if sum := sums[name]; sum != nil {
			sum.Add(quantityOf(l, name, string(text)))
		}
	}
	all := quantities{}
	for name, sum := range sums {
		all[name] = amount(sum.String())
	}
	return all
}

// each yields the requests of containers, or the limits where there is no request.
func (t *podTemplate) each(l *vm.LState, containers []container, yield func(name string, q *quantity.Quantity)) {
	for i := range containers {
		r := &containers[i].Resources
		wanted := maps.Clone(r.Limits)
		if wanted == nil {
			wanted = quantities{}
		}
		maps.Copy(wanted, r.Requests)
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			yield(name, quantityOf(l, name, string(wanted[name])))
		}
	}
}

func quantityOf(l *vm.LState, name, text string) *quantity.Quantity {
	l.Charge(quantityInstructions)
	q, err := quantity.Parse(text)
	if err != nil {
		l.RaiseError("the amount %s of %s %s", values.KeyText(vm.LString(text)), values.KeyText(vm.LString(name)), err.Error())
	}
	return q
}

// dependency is an object that a pod needs.
type dependency struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// kubeDependencies returns the objects that a pod of the template needs, in order of their kinds and names.
func kubeDependencies(l *vm.LState) int {
	t := argPodTemplate(l)
	namespace := bind.OptString(l, 2, "default")
	list := []dependency{}
	add := func(kind, name string) {
		if name != "" {
			list = append(list, dependency{"v1", kind, namespace, name})
		}
	}
	const configMap, secret = "ConfigMap", "Secret"
	for _, c := range slices.Concat(t.Spec.InitContainers, t.Spec.Containers) {
		for _, e := range c.Env {
			add(configMap, e.ValueFrom.ConfigMap.Name)
			add(secret, e.ValueFrom.Secret.Name)
		}
		for _, e := range c.EnvFrom {
			add(configMap, e.ConfigMap.Name)
			add(secret, e.Secret.Name)
		}
	}
	for _, r := range t.Spec.ImagePullSecrets {
		add(secret, r.Name)
	}
	for _, v := range t.Spec.Volumes {
		add(configMap, v.ConfigMap.Name)
		add(secret, v.Secret.Name)
		add(secret, v.CSI.Secret.Name)
		add("PersistentVolumeClaim", v.Claim.Name)
		for _, s := range v.Projected.Sources {
			add(configMap, s.ConfigMap.Name)
			add(secret, s.Secret.Name)
		}
	}
	if t.Spec.ServiceAccount != "default" {
		add("ServiceAccount", t.Spec.ServiceAccount)
	}
	slices.SortFunc(list, func(a, b dependency) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return pushJSON(l, slices.Compact(list))
}
