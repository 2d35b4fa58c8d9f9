package decisionlog

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/mask"
	"github.com/scriptorium-dev/scriptorium/script"
)

// policy selects the calls to record, and the parts of a record. It is immutable.
type policy struct {
	// most is the sampling threshold: the number of the 1<<56 random parts of trace ids that are recorded.
	most   uint64
	errors bool
	strict bool
	masks  *mask.Paths
	fields fields
	input  *mask.Paths // the selected parts; nil for all, if fields has it
	result *mask.Paths
}

// fields is a set of script.RecordFields.
type fields uint16

const (
	// partOfInput and partOfResult are set if only selected parts of these fields are kept.
	partOfInput  fields = 1 << 14
	partOfResult fields = 1 << 15

	allFields = partOfInput - 1
)

// fieldsByName has one bit for each.
var fieldsByName = func() map[string]fields {
	all := map[string]fields{}
	for i, name := range script.RecordFields() {
		all[name] = 1 << i
	}
	return all
}()

var (
	fieldInput        = fieldsByName[script.RecordInput]
	fieldResult       = fieldsByName[script.RecordResult]
	fieldError        = fieldsByName["error"]
	fieldProtocol     = fieldsByName["protocol"]
	fieldCaller       = fieldsByName["requested_by"]
	fieldTrace        = fieldsByName["trace_id"]
	fieldSpan         = fieldsByName["span_id"]
	fieldDuration     = fieldsByName["duration_ns"]
	fieldInstructions = fieldsByName["instructions"]
	fieldStaleness    = fieldsByName["staleness_ms"]
)

// randomBits is the number of random bits of a trace id, by W3C Trace Context Level 2. OpenTelemetry's ratio samplers use
// the same bits, so they sample the same calls.
const randomBits = 56

// newPolicy returns the policy of a call. The settings of the script override those of the tenant, but the masks of both
// apply.
func newPolicy(of, tenant *script.Decisions, strict bool) *policy {
	p := &policy{strict: strict, fields: allFields}
	settings := of
	if settings == nil {
		settings = tenant
	}
	if settings != nil {
		p.errors = settings.Errors
		p.most = uint64(min(max(settings.Sample, 0), 1) * (1 << randomBits))
		p.choose(settings.Fields)
	}
	if strict {
		p.most = 1 << randomBits
	}
	var masks [][]string
	for _, d := range []*script.Decisions{of, tenant} {
		if d != nil {
			masks = append(masks, d.Mask)
		}
	}
	p.masks = mask.NewPaths(masks...)
	return p
}

// choose selects the fields with these names. The names of input and result can have a path behind a dot.
func (p *policy) choose(names []string) {
	if len(names) == 0 {
		return
	}
	p.fields = 0
	var input, result []string
	for _, name := range names {
		first, rest, _ := strings.Cut(name, ".")
		p.fields |= fieldsByName[first]
		switch first {
		case script.RecordInput:
			input = append(input, rest)
		case script.RecordResult:
			result = append(result, rest)
		}
	}
	p.input, p.result = keeps(input), keeps(result)
	if len(input) > 0 && !p.input.Empty() {
		p.fields |= partOfInput
	}
	if len(result) > 0 && !p.result.Empty() {
		p.fields |= partOfResult
	}
}

// keeps returns the paths that are kept of a part; nil for all of it.
func keeps(paths []string) *mask.Paths {
	switch {
	case len(paths) == 0:
		return mask.Nothing
	case slices.Contains(paths, ""):
		return nil
	}
	return mask.NewPaths(paths)
}

// records reports whether to record a call with this kind of error ("" for none) and trace id ("" for none).
func (p *policy) records(kind script.Kind, traceID string) bool {
	switch {
	case kind != "" && p.errors, p.most == 1<<randomBits:
		return true
	case p.most == 0:
		return false
	}
	const digits = randomBits / 4
	if len(traceID) < digits {
		return rand.Uint64()>>(64-randomBits) < p.most
	}
	random, err := strconv.ParseUint(traceID[len(traceID)-digits:], 16, 64)
	return err == nil && random >= 1<<randomBits-p.most
}

// policies caches the policies of recent calls.
type policies struct {
	made  sync.Map // of *policy by policyKey
	count atomic.Int64
}

// policyKey has the settings of a policy. It compares addresses: while the cache has the key, the settings stay in memory
// and no other settings can have their address.
type policyKey struct {
	of, tenant *script.Decisions
	strict     bool
}

// maxPolicies bounds the cache. A policy has a few KiB at most.
const maxPolicies = 4096

func (c *policies) get(key policyKey) *policy {
	if p, ok := c.made.Load(key); ok {
		return p.(*policy)
	}
	p := newPolicy(key.of, key.tenant, key.strict)
	if _, had := c.made.LoadOrStore(key, p); !had && c.count.Add(1) > maxPolicies {
		c.made.Range(func(other, _ any) bool { // evicts an arbitrary one
			if _, had := c.made.LoadAndDelete(other); had {
				c.count.Add(-1)
			}
			return false
		})
	}
	return p
}
