package rego

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The documents in data that the engine provides.
const (
	valuesDocument = "values"
	configDocument = "config"
)

// ownDocument reports whether a member of data is the engine's own.
func ownDocument(name string) bool {
	return name == valuesDocument || name == configDocument || strings.HasPrefix(name, partialPackage)
}

// The bounds of a read of all values at once.
const (
	maxValues      = 1000
	maxValuesBytes = 1 << 20
)

var errNotFound = &storage.Error{Code: storage.NotFoundErr, Message: "document does not exist"}

// store is the data that a program sees. What a call sees is in its transaction.
type store struct {
	storage.TriggersNotSupported
	storage.PolicyNotSupported
	storage.WritesNotSupported
	base ast.Object // of the bundle; nobody changes it
}

// transaction is one call's view of data. It belongs to the goroutine of the call.
type transaction struct {
	meter  *meter
	inv    *engine.Invocation
	config ast.Value
	values map[string]ast.Value // those that were read; nil for a key without value
	// partial says that there is no call: what differs between calls is an error.
	partial bool
}

// ID is storage.Transaction's.
func (*transaction) ID() uint64 { return 1 }

// NewTransaction is storage.Store's. Nobody calls it: a call brings its own.
func (*store) NewTransaction(context.Context, ...storage.TransactionParams) (storage.Transaction, error) {
	return nil, errors.New("no transactions")
}

// Commit is storage.Store's.
func (*store) Commit(context.Context, storage.Transaction) error { return nil }

// Abort is storage.Store's.
func (*store) Abort(context.Context, storage.Transaction) {}

// Truncate is storage.Store's.
func (*store) Truncate(context.Context, storage.Transaction, storage.TransactionParams, storage.Iterator) error {
	return errors.New("data is read-only")
}

// Read is storage.Store's. It returns an ast.Value.
func (s *store) Read(_ context.Context, txn storage.Transaction, path storage.Path) (any, error) {
	t := txn.(*transaction)
	if t.partial && (len(path) == 0 || path[0] == valuesDocument || path[0] == configDocument) {
		return nil, errUnknown
	}
	if len(path) == 0 {
		return s.whole(t)
	}
	switch path[0] {
	case valuesDocument:
		if len(path) == 1 {
			return t.allValues()
		}
		v, err := t.value(path[1])
		if err != nil {
			return nil, err
		}
		return find(v, path[2:])
	case configDocument:
		config, err := t.configValue()
		if err != nil {
			return nil, err
		}
		return find(config, path[1:])
	}
	return find(s.base, path)
}

// find returns the part of the value with the path. The evaluator writes an index of an array as text.
func find(v ast.Value, path storage.Path) (any, error) {
	for _, name := range path {
		var next *ast.Term
		switch at := v.(type) {
		case ast.Object:
			if next = at.Get(ast.StringTerm(name)); next == nil {
				return nil, errNotFound
			}
		case *ast.Array:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= at.Len() {
				return nil, errNotFound
			}
			next = at.Elem(i)
		default:
			return nil, errNotFound
		}
		v = next.Value
	}
	if v == nil {
		return nil, errNotFound
	}
	return v, nil
}

// whole returns data as a policy sees it that iterates over it.
func (s *store) whole(t *transaction) (any, error) {
	values, err := t.allValues()
	if err != nil {
		return nil, err
	}
	config, err := t.configValue()
	if err != nil {
		return nil, err
	}
	all := ast.NewObject(ast.Item(ast.InternedTerm(valuesDocument), ast.NewTerm(values)), ast.Item(ast.InternedTerm(configDocument), ast.NewTerm(config)))
	s.base.Foreach(all.Insert)
	return all, nil
}

// configValue returns the config of the call.
func (t *transaction) configValue() (ast.Value, error) {
	if t.config == nil {
		config, err := decodeConfig(t.inv.Config)
		if err != nil {
			return nil, err
		}
		t.config = config
	}
	return t.config, nil
}

func decodeConfig(text []byte) (ast.Value, error) {
	if len(text) == 0 {
		return ast.NewObject(), nil
	}
	config, err := decode(text, maxNodes)
	if err != nil {
		return nil, script.Errorf(script.Invalid, configDocument, "%w", err)
	}
	if _, ok := config.(ast.Object); !ok {
		return nil, script.Errorf(script.Invalid, configDocument, "not a JSON object")
	}
	return config, nil
}

// value returns the tenant's value with the key, nil if there is none.
func (t *transaction) value(key string) (ast.Value, error) {
	if v, ok := t.values[key]; ok {
		return v, nil
	}
	if t.inv.Host == nil {
		return nil, errNoHost()
	}
	content, ok, err := t.inv.Host.Value(t.inv.Tenant, key)
	if err != nil {
		return nil, err
	}
	var v ast.Value
	if ok {
		if !t.meter.pay(uint64(len(content) / bytesPerInstruction)) {
			return nil, t.meter.stopped
		}
		v = contentValue(content)
	}
	if t.values == nil {
		t.values = map[string]ast.Value{}
	}
	t.values[key] = v
	return v, nil
}

// bytesPerInstruction is how many bytes that are read cost an instruction.
const bytesPerInstruction = 64

func errNoHost() *script.Error {
	return script.Errorf(script.Script, "", "data.values is not available here: no agent provides the tenant's values")
}

// contentValue is the document that JSON says, and the text of any other content.
func contentValue(content []byte) ast.Value {
	if v, err := decode(content, len(content)); err == nil {
		return v
	}
	return ast.String(strings.ToValidUTF8(string(content), "\uFFFD"))
}

// allValues returns the object of all values of the tenant.
func (t *transaction) allValues() (ast.Value, error) {
	if t.inv.Host == nil {
		return nil, errNoHost()
	}
	keys := t.inv.Host.Keys(t.inv.Tenant, "", "", maxValues+1)
	if len(keys) > maxValues {
		return nil, script.Errorf(script.Limit, "", "the policy reads all of data.values, and the tenant has more than %d values: read single keys, as in data.values[\"key\"]", maxValues)
	}
	all := ast.NewObjectWithCapacity(len(keys))
	size := 0
	for _, key := range keys {
		v, err := t.value(key)
		if err != nil {
			return nil, err
		}
		if v == nil { // deleted since
			continue
		}
		if size += v.StringLength(); size > maxValuesBytes {
			return nil, script.Errorf(script.Limit, "", "the policy reads all of data.values, which has more than %d bytes: read single keys, as in data.values[\"key\"]", maxValuesBytes)
		}
		all.Insert(ast.StringTerm(key), ast.NewTerm(v))
	}
	return all, nil
}
