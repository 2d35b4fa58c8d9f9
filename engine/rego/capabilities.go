package rego

import (
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// refusedBuiltins are the functions of OPA that no policy has here, each with the reason. A function of OPA that is
// neither here nor in allowedBuiltins is refused, too: a test fails until somebody has looked at it.
var refusedBuiltins = map[string]string{
	"http.send":                         "a call waits for nothing outside of the agent",
	"net.lookup_ip_addr":                "a call waits for nothing outside of the agent",
	"opa.runtime":                       "it tells about the process",
	"trace":                             "there is no trace; use print",
	"internal.test_case":                "it is for traces of tests",
	"rego.metadata.chain":               "annotations of a source are not kept",
	"rego.metadata.rule":                "annotations of a source are not kept",
	"rego.parse_module":                 "it parses a source during a call, which nothing bounds",
	"providers.aws.sign_req":            "it signs requests, and no policy sends any",
	"graphql.is_valid":                  "nothing bounds its time and memory",
	"graphql.parse":                     "nothing bounds its time and memory",
	"graphql.parse_and_verify":          "nothing bounds its time and memory",
	"graphql.parse_query":               "nothing bounds its time and memory",
	"graphql.parse_schema":              "nothing bounds its time and memory",
	"graphql.schema_is_valid":           "nothing bounds its time and memory",
	"json.match_schema":                 "a schema may refer to files and to the network, and nothing bounds its time",
	"json.verify_schema":                "a schema may refer to files and to the network, and nothing bounds its time",
	"strings.render_template":           "nothing bounds a template's loops",
	"graph.reachable_paths":             "the number of paths grows exponentially",
	"regex.globs_match":                 "its time grows exponentially",
	"net.cidr_expand":                   "the number of addresses grows exponentially with the size of the network",
	"yaml.unmarshal":                    "an alias makes a document of any size",
	"yaml.is_valid":                     "an alias makes a document of any size",
	"crypto.x509.parse_keypair":         "policies hold no private keys",
	"crypto.parse_private_keys":         "policies hold no private keys",
	"io.jwt.encode_sign":                "policies hold no private keys",
	"io.jwt.encode_sign_raw":            "policies hold no private keys",
	"crypto.x509.parse_rsa_private_key": "policies hold no private keys",
}

// allowedBuiltins are the functions of OPA that policies have.
var allowedBuiltins = []string{
	"abs", "all", "and", "any", "array.concat", "array.flatten", "array.reverse", "array.slice", "assign",
	"base64.decode", "base64.encode", "base64.is_valid", "base64url.decode", "base64url.encode", "base64url.encode_no_pad",
	"bits.and", "bits.lsh", "bits.negate", "bits.or", "bits.rsh", "bits.xor",
	"cast_array", "cast_boolean", "cast_null", "cast_object", "cast_set", "cast_string", "ceil", "concat", "contains", "count",
	"crypto.hmac.equal", "crypto.hmac.md5", "crypto.hmac.sha1", "crypto.hmac.sha256", "crypto.hmac.sha512",
	"crypto.md5", "crypto.sha1", "crypto.sha256",
	"crypto.x509.parse_and_verify_certificates", "crypto.x509.parse_and_verify_certificates_with_options",
	"crypto.x509.parse_certificate_request", "crypto.x509.parse_certificates",
	"div", "endswith", "eq", "equal", "floor", "format_int", "glob.match", "glob.quote_meta", "graph.reachable", "gt", "gte",
	"hex.decode", "hex.encode", "indexof", "indexof_n", "internal.member_2", "internal.member_3", "internal.print",
	"internal.template_string", "intersection",
	"io.jwt.decode", "io.jwt.decode_verify", "io.jwt.verify_eddsa", "io.jwt.verify_es256", "io.jwt.verify_es384", "io.jwt.verify_es512",
	"io.jwt.verify_hs256", "io.jwt.verify_hs384", "io.jwt.verify_hs512", "io.jwt.verify_ps256", "io.jwt.verify_ps384",
	"io.jwt.verify_ps512", "io.jwt.verify_rs256", "io.jwt.verify_rs384", "io.jwt.verify_rs512",
	"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string",
	"json.filter", "json.is_valid", "json.marshal", "json.marshal_with_options", "json.patch", "json.remove", "json.unmarshal",
	"lower", "lt", "lte", "max", "min", "minus", "mul", "neq",
	"net.cidr_contains", "net.cidr_contains_matches", "net.cidr_intersects", "net.cidr_is_valid", "net.cidr_merge", "net.cidr_overlap",
	"numbers.range", "numbers.range_step", "object.filter", "object.get", "object.keys", "object.remove", "object.subset",
	"object.union", "object.union_n", "or", "plus", "print", "product", "rand.intn", "re_match",
	"regex.find_all_string_submatch_n", "regex.find_n", "regex.is_valid", "regex.match", "regex.replace", "regex.split",
	"regex.template_match", "rem", "replace", "round", "semver.compare", "semver.is_valid", "set_diff", "sort", "split", "sprintf",
	"startswith", "strings.any_prefix_match", "strings.any_suffix_match", "strings.count", "strings.replace_n", "strings.reverse",
	"strings.split_n", "substring", "sum", "time.add_date", "time.clock", "time.date", "time.diff", "time.format", "time.now_ns",
	"time.parse_duration_ns", "time.parse_ns", "time.parse_rfc3339_ns", "time.weekday", "to_number", "trim", "trim_left",
	"trim_prefix", "trim_right", "trim_space", "trim_suffix", "type_name", "union", "units.parse", "units.parse_bytes", "upper",
	"uri.is_valid", "uri.parse", "urlquery.decode", "urlquery.decode_object", "urlquery.encode", "urlquery.encode_object",
	"uuid.parse", "uuid.rfc4122", "walk", "yaml.marshal",
}

// capabilities returns what policies may use of OPA, for version 0 or 1 of Rego.
var capabilities = [2]func() *ast.Capabilities{
	sync.OnceValue(func() *ast.Capabilities { return trimmed(ast.RegoV0) }),
	sync.OnceValue(func() *ast.Capabilities { return trimmed(ast.RegoV1) }),
}

func trimmed(version ast.RegoVersion) *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(version))
	allowed := make(map[string]bool, len(allowedBuiltins))
	for _, name := range allowedBuiltins {
		allowed[name] = true
	}
	kept := c.Builtins[:0:0]
	for _, b := range c.Builtins {
		if allowed[b.Name] {
			kept = append(kept, b)
		}
	}
	c.Builtins = kept
	c.AllowNet = []string{}
	return c
}
