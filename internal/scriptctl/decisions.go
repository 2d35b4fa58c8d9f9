package scriptctl

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/script"
)

// recordedView is what is recorded of calls.
type recordedView struct {
	Decisions *decisionsView `json:"decisions"`
}

type decisionsView struct {
	Sample float64  `json:"sample"`
	Errors bool     `json:"errors"`
	Mask   []string `json:"mask,omitempty"`
	Fields []string `json:"fields,omitempty"`
}

func viewOfLog(d *script.Decisions) *recordedView {
	if d == nil {
		return nil
	}
	return &recordedView{Decisions: new(decisionsView(*d))}
}

// String returns the view in one line, such as "0.01 of the calls, every error, mask headers.authorization".
func (v *decisionsView) String() string {
	parts := []string{strconv.FormatFloat(v.Sample, 'g', -1, 64) + " of the calls"}
	if v.Errors {
		parts = append(parts, "every error")
	}
	if len(v.Mask) > 0 {
		parts = append(parts, "mask "+strings.Join(v.Mask, " "))
	}
	if len(v.Fields) > 0 {
		parts = append(parts, "fields "+strings.Join(v.Fields, " "))
	}
	return strings.Join(parts, ", ")
}

// auditNone is the value of --audit that takes it away.
const auditNone = "none"

func auditOf(flag string) script.Audit {
	if flag == auditNone {
		return ""
	}
	return script.Audit(flag)
}

// applyDecisions sets what was given of decisions, and reports whether anything was. Without any of
// them the tenant records nothing.
func (f *tenantFlags) applyDecisions(flags *pflag.FlagSet, s *script.TenantSettings) (given bool) {
	var d script.Decisions
	if s.Decisions != nil {
		d = *s.Decisions
	}
	for name, set := range map[string]func(){
		"decisions-sample": func() { d.Sample = f.sample },
		"decisions-errors": func() { d.Errors = f.errors },
		"decisions-mask":   func() { d.Mask = f.mask },
		"decisions-fields": func() { d.Fields = f.fields },
	} {
		if flags.Changed(name) {
			set()
			given = true
		}
	}
	if !given {
		return false
	}
	if s.Decisions = &d; d.Sample == 0 && !d.Errors && len(d.Mask)+len(d.Fields) == 0 {
		s.Decisions = nil
	}
	return true
}
