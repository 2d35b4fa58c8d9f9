package spec_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

const source = "function handle(name) return name end\n"

func luaScript(change func(*v1alpha1.LuaScript)) *v1alpha1.LuaScript {
	ls := &v1alpha1.LuaScript{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "route"},
		Spec:       v1alpha1.LuaScriptSpec{TenantID: "acme", Source: new(source)},
	}
	if change != nil {
		change(ls)
	}
	return ls
}

func config(json string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(json)} }

func TestWanted(t *testing.T) {
	plain := spec.Wanted{
		Engine: script.EngineLua,
		Name:   script.Name{Tenant: "acme", Script: "route"}, Source: []byte(source), Entrypoint: "handle", Enabled: true,
		Owner: "luascript/shop/route", SourceField: "spec.source",
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(source))
	for name, tt := range map[string]struct {
		change func(*v1alpha1.LuaScript)
		want   func(*spec.Wanted)
	}{
		"the least": {},
		"base64 in lines": {
			change: func(ls *v1alpha1.LuaScript) {
				ls.Spec.Source, ls.Spec.Script = nil, new(encoded[:20]+"\n  "+encoded[20:]+"\n")
			},
			want: func(w *spec.Wanted) { w.SourceField = "spec.script" },
		},
		"everything": {
			change: func(ls *v1alpha1.LuaScript) {
				ls.Spec.Entrypoint, ls.Spec.Enabled, ls.Spec.Version = new("main"), new(false), new(int64(7))
				ls.Spec.Trigger = &v1alpha1.Trigger{Event: "http-request", Priority: new(int32(-5)), Match: &v1alpha1.Match{
					Hosts: []string{"*.a"}, PathPrefixes: []string{"/b"}, Methods: []string{"GET"}, Headers: map[string]string{"x-c": "1"},
				}}
				ls.Spec.OnError = &v1alpha1.OnError{Policy: new("closed"), Status: new(int32(429)), Body: new("later\n")}
				ls.Spec.Log = &v1alpha1.Log{Decisions: &v1alpha1.Decisions{Sample: new(0.5), Errors: new(true), Mask: []string{"body"}, Fields: []string{"error"}}}
				ls.Spec.RevisionHistoryLimit = new(int32(3))
				ls.Spec.Config = config(`{"b": [1, 12345678901234567890], "a": "<&>"}`)
				ls.Spec.Rollout = &v1alpha1.Rollout{
					Steps:           []v1alpha1.RolloutStep{{Percent: 10, Pause: new("1h30m")}, {Percent: 50}, {Percent: 99, Pause: new("0s")}},
					MaxErrorPercent: new(0.0),
				}
				ls.Spec.Tests = []v1alpha1.Test{
					{Name: "an object", Request: config(`{"b":  1, "a": {"d": "<&>", "c": null}}`), Expect: config(`[ 1.50, {"b": 1, "a": 2} ]`)},
					{Name: "fails", Request: config(`"x"`), Error: new("SCRIPT")},
					{Name: "nothing", Request: config(`null`), Expect: config(`null`)},
					{Name: "the default", Request: config(` { } `), Expect: config(`false`)},
				}
				ls.Spec.Limits = &v1alpha1.Limits{
					Instructions: new(int64(5)), Timeout: new("1.5s"), SourceBytes: new(int64(100)), StringBytes: new(int64(2)),
					ResultBytes: new(int64(3)), LogBytes: new(int64(4)), Concurrency: new(int32(6)), Coroutines: new(true),
				}
			},
			want: func(w *spec.Wanted) {
				w.Entrypoint, w.Enabled, w.Pin = "main", false, 7
				w.Settings = script.Settings{
					Spec: script.Spec{
						Trigger: script.Trigger{Event: "http-request", Priority: -5, Match: script.Match{
							Hosts: []string{"*.a"}, PathPrefixes: []string{"/b"}, Methods: []string{"GET"}, Headers: map[string]string{"x-c": "1"},
						}},
						OnError:   script.OnError{Status: 429, Body: "later\n"},
						Decisions: &script.Decisions{Sample: 0.5, Errors: true, Mask: []string{"body"}, Fields: []string{"error"}},
						Config:    []byte(`{"a":"<&>","b":[1,12345678901234567890]}`),
						Tests: []script.Test{
							{Name: "an object", Request: []byte(`{"a":{"c":null,"d":"<&>"},"b":1}`), Expect: []byte(`[1.50,{"a":2,"b":1}]`)},
							{Name: "fails", Request: []byte(`"x"`), Error: script.Script},
							{Name: "nothing"},
							{Name: "the default", Expect: []byte(`false`)},
						},
						Limits: script.Limits{
							Instructions: 5, Timeout: 1500 * time.Millisecond, SourceBytes: 100, StringBytes: 2,
							ResultBytes: 3, LogBytes: 4, Concurrency: 6, Coroutines: true,
						},
					},
					HistoryLimit: 3,
					Rollout: script.Plan{
						Steps:           []script.Step{{Percent: 10, Pause: 90 * time.Minute}, {Percent: 50}, {Percent: 99}},
						MaxErrorPercent: new(0.0),
					},
				}
			},
		},
		"no entrypoint":         {func(ls *v1alpha1.LuaScript) { ls.Spec.Entrypoint = new("") }, func(w *spec.Wanted) { w.Entrypoint = "" }},
		"an onError of nothing": {change: func(ls *v1alpha1.LuaScript) { ls.Spec.OnError = &v1alpha1.OnError{Policy: new("closed")} }},
		"a log of nothing":      {change: func(ls *v1alpha1.LuaScript) { ls.Spec.Log = &v1alpha1.Log{} }},
		"decisions of nothing": {
			func(ls *v1alpha1.LuaScript) { ls.Spec.Log = &v1alpha1.Log{Decisions: &v1alpha1.Decisions{}} },
			func(w *spec.Wanted) { w.Settings.Decisions = &script.Decisions{} },
		},
		"an open policy": {
			func(ls *v1alpha1.LuaScript) { ls.Spec.OnError = &v1alpha1.OnError{Policy: new("open")} },
			func(w *spec.Wanted) { w.Settings.OnError.Policy = script.PolicyOpen },
		},
		"a config of nothing": {change: func(ls *v1alpha1.LuaScript) { ls.Spec.Config = config(` {} `) }},
		"a rollout of nothing": {change: func(ls *v1alpha1.LuaScript) {
			ls.Spec.Rollout, ls.Spec.Tests = &v1alpha1.Rollout{Steps: []v1alpha1.RolloutStep{}}, []v1alpha1.Test{}
		}},
		"a config of null": {change: func(ls *v1alpha1.LuaScript) { ls.Spec.Config = config(`null`) }},
	} {
		want := plain
		if tt.want != nil {
			tt.want(&want)
		}
		got, err := spec.From(kinds.LuaScript, luaScript(tt.change))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// deep is an object in objects, so many in all.
func deep(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

var luaScriptFaults = []struct {
	change func(*v1alpha1.LuaScript)
	want   string // all the words
}{
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Source = nil }, "spec.source: is missing: add one of source (plain text), script (base64) and artifact (in an OCI registry)"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Script = new("eA==") }, "spec.script: there is spec.source as well: keep one of the two"},
	{
		func(ls *v1alpha1.LuaScript) { ls.Spec.Source, ls.Spec.Script = nil, new("no base64!") },
		"spec.script: is not base64 (illegal base64 data at input byte 8): write the plain text to spec.source instead",
	},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Source, ls.Spec.Script = nil, new("Cg==\n") }, "spec.script: is empty: a script has at least one statement"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Source = new(" \n") }, "spec.source: is empty: a script has at least one statement"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Source = new("x = 1\ny\x00") }, "spec.source: line 2, column 2: a NUL byte: a script is text"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Source = new("-- ü\n\xff") }, "spec.source: line 2, column 1: not valid UTF-8: save it as UTF-8"},
	{
		func(ls *v1alpha1.LuaScript) { ls.Spec.Limits = &v1alpha1.Limits{SourceBytes: new(int64(10))} },
		"spec.source: the source has 38 bytes and may have 10: shorten it, or raise spec.limits.sourceBytes (at most 1048576)",
	},
	{func(ls *v1alpha1.LuaScript) { ls.Name = "a.b" }, `metadata.name: "a.b" is not a DNS label: want 1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit`},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.TenantID = "" }, "spec.tenantId: must not be empty"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Entrypoint = new("a-b") }, `spec.entrypoint: "a-b" is not the name of a function; leave it out for handle, or "" to run the chunk itself`},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Entrypoint = new(strings.Repeat("a", 65)) }, "spec.entrypoint: has 65 bytes, at most 64 are allowed"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Version = new(int64(0)) }, "spec.version: 0 is not between 1 and 9007199254740992; leave it out for the default"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.RevisionHistoryLimit = new(int32(51)) }, "spec.revisionHistoryLimit: 51 is not between 1 and 50; leave it out for the default"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Trigger = &v1alpha1.Trigger{} }, "spec.trigger.event: must not be empty"},
	{
		func(ls *v1alpha1.LuaScript) {
			ls.Spec.Trigger = &v1alpha1.Trigger{Event: "e", Match: &v1alpha1.Match{PathPrefixes: []string{"/a/../b"}}}
		},
		`spec.trigger.match.pathPrefixes[0]: "/a/../b" is never the beginning of a path, which gateways clean: write "/b"`,
	},
	{
		func(ls *v1alpha1.LuaScript) {
			ls.Spec.Log = &v1alpha1.Log{Decisions: &v1alpha1.Decisions{Mask: []string{"input.body"}}}
		},
		`spec.log.decisions.mask[0]: "input.body" begins with input, but a mask is of arguments and results alike: write "body"`,
	},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.OnError = &v1alpha1.OnError{Policy: new("ajar")} }, `spec.onError.policy: is "ajar", want closed or open`},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.OnError = &v1alpha1.OnError{Status: new(int32(0))} }, "spec.onError.status: 0 is not between 300 and 599; leave it out for the default, 503"},
	{
		func(ls *v1alpha1.LuaScript) {
			ls.Spec.OnError = &v1alpha1.OnError{Policy: new("open"), Status: new(int32(503))}
		},
		"spec.onError.status: only goes with the policy closed: remove it, since an open policy answers nothing",
	},
	{
		func(ls *v1alpha1.LuaScript) {
			ls.Spec.OnError = &v1alpha1.OnError{Body: new(strings.Repeat("ü", 2049))}
		},
		"spec.onError.body: has 4098 bytes, at most 4096 (4 KiB) are allowed",
	},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Config = config(`[1]`) }, "spec.config: is not a JSON object"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Config = config(deep(33)) }, "spec.config: is nested deeper than 32"},
	{
		func(ls *v1alpha1.LuaScript) { ls.Spec.Config = config(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`) },
		"spec.config: has 65544 bytes, at most 65536 (64 KiB) are allowed",
	},
	{
		func(ls *v1alpha1.LuaScript) {
			ls.Spec.Limits = &v1alpha1.Limits{Timeout: new("soon"), Instructions: new(int64(-1)), Concurrency: new(int32(1025)), LogBytes: new(int64(1 << 40))}
		},
		`spec.limits.timeout: "soon" is not a duration: want a number and a unit, such as 50ms; ` +
			"spec.limits.logBytes: 1099511627776 is not between 1 and 1048576; leave it out for the default; " +
			"spec.limits.instructions: -1 is not between 1 and 100000000; leave it out for the default; " +
			"spec.limits.concurrency: 1025 is not between 1 and 1024; leave it out for the default",
	},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Limits = &v1alpha1.Limits{Timeout: new("0s")} }, "spec.limits.timeout: 0s is not above 0 and at most 10s"},
	{func(ls *v1alpha1.LuaScript) { ls.Spec.Limits = &v1alpha1.Limits{Timeout: new("11s")} }, "spec.limits.timeout: 11s is not above 0 and at most 10s"},
}

func TestFaults(t *testing.T) {
	for _, tt := range luaScriptFaults {
		_, err := spec.From(kinds.LuaScript, luaScript(tt.change))
		if err == nil || err.Error() != tt.want {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
		if script.KindOf(err) != script.Invalid {
			t.Errorf("%v: kind %s", err, script.KindOf(err))
		}
	}
}

func TestCheckCompiles(t *testing.T) {
	engine := engines.Checkers()
	for _, tt := range []struct {
		change func(*v1alpha1.LuaScript)
		want   string
	}{
		{nil, ""},
		{
			func(ls *v1alpha1.LuaScript) { ls.Spec.Source = new("function handle()\n  return end\nend") },
			"spec.source: line 3, column 1: unexpected 'end'",
		},
		{
			func(ls *v1alpha1.LuaScript) {
				ls.Spec.Source, ls.Spec.Script = nil, new(base64.StdEncoding.EncodeToString([]byte("x = = 1")))
				ls.Spec.RevisionHistoryLimit = new(int32(0))
			},
			"spec.revisionHistoryLimit: 0 is not between 1 and 50; leave it out for the default; spec.script: line 1, column 5: unexpected '='",
		},
		// Of a source that cannot be read nothing more is said.
		{func(ls *v1alpha1.LuaScript) { ls.Spec.Source = new("") }, "spec.source: is empty: a script has at least one statement"},
		{
			func(ls *v1alpha1.LuaScript) { ls.Spec.Entrypoint = new("1") },
			`spec.entrypoint: "1" is not the name of a function; leave it out for handle, or "" to run the chunk itself`,
		},
	} {
		_, err := spec.Check(engine, kinds.LuaScript, luaScript(tt.change))
		if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
	_, err := spec.Check(engine, kinds.LuaScript, luaScript(func(ls *v1alpha1.LuaScript) { ls.Spec.Source = new("x = 1") }))
	if err == nil || !strings.HasPrefix(err.Error(), "spec.entrypoint: ") {
		t.Errorf("no entrypoint: %v", err)
	}
}

// Locate words the registry's errors as the webhook words its own.
func TestLocate(t *testing.T) {
	w, err := spec.From(kinds.LuaScript, luaScript(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		err  *script.Error
		want string
	}{
		{&script.Error{Kind: script.Script, Field: "source", Line: 3, Column: 7, Message: "unexpected 'end'"}, "spec.source: line 3, column 7: unexpected 'end'"},
		{script.Errorf(script.NotFound, "pin", "there is no version 9"), "spec.version: there is no version 9"},
		{script.Errorf(script.Invalid, "settings.limits.timeout", "is too long"), "spec.limits.timeout: is too long"},
		{script.Errorf(script.Invalid, "settings.historyLimit", "is too long"), "spec.revisionHistoryLimit: is too long"},
		{script.Errorf(script.Denied, "owner", "it is not yours"), "metadata.name: somebody else has the script acme/route too, and owns it: give this one another name, or have the other let go of it"},
		{script.Errorf(script.Unavailable, "", "nobody is there"), "nobody is there"},
	} {
		got := w.Locate(tt.err)
		if got.Error() != tt.want || script.KindOf(got) != tt.err.Kind {
			t.Errorf("got %v (%s), want %s", got, script.KindOf(got), tt.want)
		}
	}
}

// Who owns a script the registry says, in words for those who use scriptctl.
func TestLocateAnotherOwner(t *testing.T) {
	for owner, want := range map[string]string{
		kinds.LuaScript.Owner("other", "route"): "metadata.name: the LuaScript other/route is the script acme/route too, and owns it: give this one another name, or have the other let go of it",
		"ci":                                    "metadata.name: ci has the script acme/route too, and owns it: give this one another name, or have the other let go of it",
	} {
		w, err := spec.From(kinds.LuaScript, luaScript(nil))
		if err != nil {
			t.Fatal(err)
		}
		r := registry.New(registry.Config{Store: memstore.New(), Engines: engines.Checkers()})
		publish := func(owner string) error {
			_, err := r.Publish(t.Context(), registry.PublishRequest{
				Write:  registry.Write{Name: w.Name, Author: "test", Owner: owner, By: access.Everybody("test")},
				Source: w.Source, Engine: script.EngineLua, Entrypoint: w.Entrypoint,
			})
			return err
		}
		if err := publish(owner); err != nil {
			t.Fatal(err)
		}
		if got := w.Locate(publish(w.Owner)); got == nil || got.Error() != want || script.KindOf(got) != script.Denied {
			t.Errorf("got  %v\nwant %s", got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, whole := range []string{"", "short", strings.Repeat("é", 500)} {
		if got := spec.Cut(whole); got != whole {
			t.Errorf("got %q", got)
		}
	}
	if got := spec.Cut("x" + strings.Repeat("é", 2000)); len(got) > 1024 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// This package repeats the registry's bounds, as it does not import the registry.
func TestBoundsAreTheRegistrys(t *testing.T) {
	long := strings.Repeat("a", script.MaxLabelLen)
	if got := spec.Author(kinds.LuaScript.Owner(long, long)); len(got) != registry.MaxAuthorBytes {
		t.Errorf("an author of %d bytes, of %d", len(got), registry.MaxAuthorBytes)
	}
	if got := spec.Author(kinds.LuaScript.Owner("shop", "route")); got != "operator:luascript/shop/route" {
		t.Error(got)
	}
	if n := len(kinds.LuaScript.Owner(long, long)); n > registry.MaxOwnerBytes {
		t.Errorf("an owner of %d bytes", n)
	}
	_, err := spec.From(kinds.LuaScript, luaScript(func(ls *v1alpha1.LuaScript) {
		ls.Spec.Entrypoint = new(strings.Repeat("a", script.MaxEntrypointBytes))
		ls.Spec.Config = config(`{"a":"` + strings.Repeat("x", registry.MaxConfigBytes-len(`{"a":""}`)) + `"}`)
		ls.Spec.Limits = &v1alpha1.Limits{}
	}))
	if err != nil {
		t.Error(err)
	}
}

func TestCeiling(t *testing.T) {
	w, err := spec.From(kinds.LuaScript, luaScript(func(ls *v1alpha1.LuaScript) {
		ls.Spec.Limits = &v1alpha1.Limits{Timeout: new("2s"), LogBytes: new(int64(5)), Concurrency: new(int32(9))}
	}))
	if err != nil {
		t.Fatal(err)
	}
	limits, source := w.AboveCeiling(script.Limits{Timeout: time.Second, LogBytes: 5, Concurrency: 8, SourceBytes: 37})
	const want = "spec.limits.timeout: 2s is more than the tenant acme may have, 1s: ask for less, or have the tenant's limits raised; " +
		"spec.limits.concurrency: 9 is more than the tenant acme may have, 8: ask for less, or have the tenant's limits raised"
	if limits.Error() != want {
		t.Errorf("got  %v\nwant %s", limits, want)
	}
	if got := source.Error(); got != "spec.source: has 38 bytes, more than the tenant acme may have, 37: have the tenant's limits.sourceBytes raised" {
		t.Error(got)
	}
	if limits, source := w.AboveCeiling(script.Limits{}); limits != nil || source != nil {
		t.Errorf("no ceiling: %v, %v", limits, source)
	}
}

func TestTenantSettings(t *testing.T) {
	quantity := func(s string) *resource.Quantity { return new(resource.MustParse(s)) }
	tenant := func(s v1alpha1.ScriptTenantSpec) *v1alpha1.ScriptTenant {
		return &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: s}
	}
	for _, tt := range []struct {
		spec v1alpha1.ScriptTenantSpec
		want script.TenantSettings
	}{
		{v1alpha1.ScriptTenantSpec{}, script.TenantSettings{Isolation: script.IsolationShared}},
		{
			v1alpha1.ScriptTenantSpec{
				Isolation: "process", Limits: &v1alpha1.Limits{Timeout: new("1s"), Coroutines: new(true)}, Concurrency: new(int32(4)),
				CPU: quantity("1.5"), Memory: quantity("1Gi"), LogBytes: new(int64(9)), Values: quantity("1M"),
			},
			script.TenantSettings{
				Isolation: script.IsolationProcess, Limits: script.Limits{Timeout: time.Second}, Concurrency: 4,
				CPU: 1500, MemoryBytes: 1 << 30, LogBytes: 9, ValueBytes: 1_000_000,
			},
		},
	} {
		got, err := spec.TenantSettings(tenant(tt.spec))
		if err != nil || got != tt.want {
			t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
		}
		if err := got.Validate("settings"); err != nil {
			t.Errorf("the registry refuses it: %v", err)
		}
	}
	const selects = `spec.namespaceSelector: "Near" is not a valid label selector operator`
	for want, s := range map[string]v1alpha1.ScriptTenantSpec{
		`spec.isolation: "jail" is no isolation: want shared or process`:                                                     {Isolation: "jail"},
		"spec.cpu: 0 is not above 0 and at most 1000 cores: want such as 500m; leave it out for no bound":                    {CPU: quantity("0")},
		"spec.cpu: 1P is not above 0 and at most 1000 cores: want such as 500m; leave it out for no bound":                   {CPU: quantity("1P")},
		"spec.memory: 32Mi is less than a process needs, 64Mi":                                                               {Memory: quantity("32Mi")},
		"spec.memory: 65Gi is not above 0 and at most 64Gi: want such as 64Mi; leave it out for the default":                 {Memory: quantity("65Gi")},
		"spec.values: -1 is not above 0 and at most 256Mi: want such as 64Mi; leave it out for the default":                  {Values: quantity("-1")},
		"spec.values: 9223372036854775807 is not above 0 and at most 256Mi: want such as 64Mi; leave it out for the default": {Values: quantity("9223372036854775807")},
		"spec.limits.timeout: 11s is not above 0 and at most 10s; spec.concurrency: 0 is not between 1 and 1024; leave it out for the default": {
			Limits: &v1alpha1.Limits{Timeout: new("11s")}, Concurrency: new(int32(0)),
		},
		"spec.logBytes: 16777217 is not between 1 and 16777216; leave it out for the default": {LogBytes: new(int64(16<<20 + 1))},
		selects: {NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: "Near", Values: []string{"x"}},
		}}},
	} {
		if _, err := spec.TenantSettings(tenant(s)); err == nil || err.Error() != want || script.KindOf(err) != script.Invalid {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// A stranger's LuaScript is read without a panic; what is taken, the registry takes.
func FuzzFromLuaScript(f *testing.F) {
	f.Add("acme", source, "", "handle", "50ms", `{"a":1}`, int64(1), int64(10))
	f.Add("Acme", "", "ZnVuY3Rpb24=", "", "1h", `[`, int64(-1), int64(1<<40))
	f.Fuzz(func(t *testing.T, tenant, text, encoded, entrypoint, timeout, object string, version, size int64) {
		ls := luaScript(func(ls *v1alpha1.LuaScript) {
			ls.Spec = v1alpha1.LuaScriptSpec{
				TenantID: tenant, Entrypoint: &entrypoint, Version: &version, Config: config(object),
				Limits: &v1alpha1.Limits{Timeout: &timeout, SourceBytes: &size, Instructions: &size},
			}
			if encoded != "" {
				ls.Spec.Script = &encoded
			} else {
				ls.Spec.Source = &text
			}
		})
		w, err := spec.From(kinds.LuaScript, ls)
		if err != nil {
			if faults, ok := spec.AllFaults(err); !ok || faults[0].Field == "" {
				t.Errorf("no fault: %v", err)
			}
			return
		}
		if err := w.Settings.Limits.Validate("limits"); err != nil {
			t.Error(err)
		}
		if err := w.Name.Validate(); err != nil {
			t.Error(err)
		}
		if len(w.Settings.Config) > registry.MaxConfigBytes || len(w.Source) > script.MaxSourceBytes {
			t.Errorf("a config of %d bytes, a source of %d", len(w.Settings.Config), len(w.Source))
		}
	})
}
