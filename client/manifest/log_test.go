package manifest_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestLog(t *testing.T) {
	for text, want := range map[string]*script.Decisions{
		"":                                   nil,
		"{}":                                 nil,
		"{decisions: }":                      nil,
		"{decisions: {}}":                    {},
		"{decisions: {sample: 1}}":           {Sample: 1},
		"{decisions: {sample: 1e-3}}":        {Sample: 0.001},
		"{decisions: {errors: true}}":        {Errors: true},
		"{decisions: {mask: [body, \"*\"]}}": {Mask: []string{"body", "*"}},
		"{decisions: {fields: [input.headers.host, error]}}": {Fields: []string{"input.headers.host", "error"}},
	} {
		m, err := manifest.Parse("m.yaml", []byte(spec("  source: return 1\n  log: "+text+"\n")), "")
		if err != nil || !m[0].Settings.Decisions.Equal(want) {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
	const at = "m.yaml:7:"
	for text, want := range map[string]string{
		"{decision: {}}":                                           at + "9: spec.log.decision: is not a field; the fields here are decisions",
		"{decisions: all}":                                         at + `20: spec.log.decisions: is the text "all", want fields: sample, errors, mask, fields`,
		"{decisions: {sample: 1%}}":                                at + `29: spec.log.decisions.sample: is the text "1%", want a number from 0 to 1, such as 0.01`,
		"{decisions: {sample: 1.5}}":                               at + "29: spec.log.decisions.sample: 1.5 is not between 0 and 1",
		"{decisions: {sample: -1}}":                                at + "29: spec.log.decisions.sample: -1 is not between 0 and 1",
		"{decisions: {sample: .nan}}":                              at + "29: spec.log.decisions.sample: NaN is not between 0 and 1",
		"{decisions: {errors: 1}}":                                 at + "29: spec.log.decisions.errors: is the number 1, want true or false",
		"{decisions: {mask: body}}":                                at + `27: spec.log.decisions.mask: is the text "body", want a list`,
		"{decisions: {mask: [1]}}":                                 at + "28: spec.log.decisions.mask[0]: is the number 1, want text: put it in quotes",
		"{decisions: {mask: [a, b..c]}}":                           at + `31: spec.log.decisions.mask[1]: "b..c" has an empty name`,
		"{decisions: {mask: [input.body]}}":                        at + `28: spec.log.decisions.mask[0]: "input.body" begins with input, but a mask is of arguments and results alike: write "body"`,
		"{decisions: {mask: [/headers/x]}}":                        at + `28: spec.log.decisions.mask[0]: "/headers/x" is not a path here`,
		"{decisions: {fields: [headers.x]}}":                       at + `30: spec.log.decisions.fields[0]: "headers.x" is not a field of a record that can be chosen: want input, result,`,
		"{decisions: {fields: [error.line]}}":                      at + `30: spec.log.decisions.fields[0]: "error.line": only input and result have paths behind them: write error`,
		"{decisions: {mask: [" + strings.Repeat("x, ", 33) + "]}}": at + "27: spec.log.decisions.mask: has 33 entries, at most 32 are allowed",
		"{decisions: {mask: [" + strings.Repeat("x", 257) + "]}}":  at + "28: spec.log.decisions.mask[0]: has 257 bytes, at most 256 are allowed",
	} {
		if _, err := manifest.Parse("m.yaml", []byte(spec("  source: return 1\n  log: "+text+"\n")), ""); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
}
