package rego

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// moduleName is what the module of a source without files is called. Errors do not repeat it.
const moduleName = "policy.rego"

// maxNesting is how deep expressions of a source may be nested, as the parser counts.
const maxNesting = 200

// sources are the modules of a policy and its data.
type sources struct {
	modules map[string]*ast.Module // by file
	main    *ast.Module            // the module of a source that is no bundle; else nil
	data    ast.Object
	bytes   int // of the modules of a bundle, as text
}

// read parses the source, which is a module or a bundle.
func read(src engine.Source) (sources, *script.Error) {
	if isBundle(src.Code) {
		return readBundle(src)
	}
	s := sources{modules: map[string]*ast.Module{}, data: ast.NewObject()}
	m, err := parse(moduleName, src.Code, src.Runtime.Rego.V0)
	if err != nil {
		return s, err
	}
	s.main, s.modules[moduleName] = m, m
	return s, nil
}

// parse parses one module.
func parse(file string, code []byte, v0 bool) (*ast.Module, *script.Error) {
	if len(code) > maxPolicyBytes {
		return nil, inFile(file, script.Errorf(script.Limit, "source", "the policy has more than %d KiB of Rego", maxPolicyBytes>>10))
	}
	if err := checkText(code); err != nil {
		return nil, inFile(file, err)
	}
	if err := prescan(file, code); err != nil {
		return nil, err
	}
	version := ast.RegoV1
	if v0 {
		version = ast.RegoV0
	}
	// ParseModuleWithOpts does not take a bound of the nesting, and the parser recurses: so the parser runs once before.
	_, _, errs := ast.NewParser().WithFilename(file).WithReader(bytes.NewReader(code)).WithRegoVersion(version).
		WithCapabilities(capabilitiesOf(v0)).WithMaxRecursionDepth(maxNesting).Parse()
	if len(errs) > 0 {
		return nil, compileError(errs)
	}
	m, err := ast.ParseModuleWithOpts(file, string(code), ast.ParserOptions{RegoVersion: version, Capabilities: capabilitiesOf(v0)})
	if err != nil {
		return nil, compileError(err)
	}
	return m, nil
}

func capabilitiesOf(v0 bool) *ast.Capabilities {
	if v0 {
		return capabilities[0]()
	}
	return capabilities[1]()
}

// inFile names the file in an error without place, if the policy has several.
func inFile(file string, err *script.Error) *script.Error {
	if file != moduleName {
		err.Message = fmt.Sprintf("%s: %s", clip(file), err.Message)
	}
	return err
}

// checkText refuses what is not text.
func checkText(code []byte) *script.Error {
	if i := strings.IndexByte(string(code), 0); i >= 0 {
		return script.Errorf(script.Invalid, "source", "byte %d is NUL: a source is text", i)
	}
	if !utf8.Valid(code) {
		return script.Errorf(script.Invalid, "source", "not UTF-8: a source is text, or a bundle (a gzipped tar archive)")
	}
	return nil
}
