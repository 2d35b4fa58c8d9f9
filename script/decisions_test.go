package script_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestDecisions(t *testing.T) {
	for _, tt := range []struct {
		d     *script.Decisions
		field string // that is wrong; "" for none
	}{
		{nil, ""},
		{&script.Decisions{}, ""},
		{&script.Decisions{Sample: 1, Errors: true, Mask: []string{"*", "headers.*", "a b.ü"}, Fields: script.RecordFields()}, ""},
		{&script.Decisions{Fields: []string{"input.*.a", "result.b"}}, ""},
		{&script.Decisions{Mask: []string{strings.Repeat("a.", script.MaxDecisionPathDepth-1) + "a"}}, ""},
		{&script.Decisions{Sample: math.NaN()}, "sample"},
		{&script.Decisions{Sample: math.Inf(1)}, "sample"},
		{&script.Decisions{Sample: -0.1}, "sample"},
		{&script.Decisions{Mask: slices.Repeat([]string{"a"}, script.MaxDecisionPaths+1)}, "mask"},
		{&script.Decisions{Mask: []string{"a", ""}}, "mask[1]"},
		{&script.Decisions{Mask: []string{"a."}}, "mask[0]"},
		{&script.Decisions{Mask: []string{"a. .b"}}, "mask[0]"},
		{&script.Decisions{Mask: []string{"\xff"}}, "mask[0]"},
		{&script.Decisions{Mask: []string{"a\nb"}}, "mask[0]"},
		{&script.Decisions{Mask: []string{"result"}}, "mask[0]"},
		{&script.Decisions{Mask: []string{"$.a"}}, "mask[0]"},
		{&script.Decisions{Mask: []string{strings.Repeat("a.", script.MaxDecisionPathDepth) + "a"}}, "mask[0]"},
		{&script.Decisions{Fields: []string{"tenant"}}, "fields[0]"},
		{&script.Decisions{Fields: []string{"trace_id.a"}}, "fields[0]"},
		{&script.Decisions{Fields: []string{"input."}}, "fields[0]"},
	} {
		err := tt.d.Validate("spec.log.decisions")
		if tt.field == "" && err != nil || tt.field != "" && (script.KindOf(err) != script.Invalid || script.AsError(err).Field != "spec.log.decisions."+tt.field) {
			t.Errorf("%.60v: %v, want a fault of %q", tt.d, err, tt.field)
		}
	}
}

// TestTenantSettingsEqual: what they point to counts.
func TestTenantSettingsEqual(t *testing.T) {
	of := func(mask string) script.TenantSettings {
		return script.TenantSettings{Concurrency: 1, Decisions: &script.Decisions{Mask: []string{mask}}}
	}
	strict := of("a")
	strict.Audit = script.AuditStrict
	for _, tt := range []struct {
		a, b script.TenantSettings
		want bool
	}{
		{of("a"), of("a"), true},
		{of("a"), of("b"), false},
		{of("a"), strict, false},
		{of("a"), script.TenantSettings{Concurrency: 1}, false},
		{script.TenantSettings{}, script.TenantSettings{}, true},
		{script.TenantSettings{Decisions: &script.Decisions{}}, script.TenantSettings{}, false},
	} {
		if tt.a.Equal(tt.b) != tt.want || tt.b.Equal(tt.a) != tt.want {
			t.Errorf("%+v and %+v: equal is not %v", tt.a, tt.b, tt.want)
		}
	}
	if err := (script.TenantSettings{Audit: "maybe"}).Validate("spec"); script.KindOf(err) != script.Invalid || script.AsError(err).Field != "spec.audit" {
		t.Errorf("an unknown audit: %v", err)
	}
}
