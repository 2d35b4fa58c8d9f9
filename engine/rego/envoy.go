package rego

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Policies for opa-envoy-plugin get Envoy's request for authorization as input, and answer in a form of their own. This
// file makes that input of a gateway's request, and a decision for a gateway of that answer.

// item is a member of an object.
func item(name string, v ast.Value) [2]*ast.Term {
	return ast.Item(ast.InternedTerm(name), ast.NewTerm(v))
}

// envoyInput returns the input that a request has with Envoy. The path is the cleaned one, as all that decide about the
// request see it.
func envoyInput(v ast.Value) (ast.Value, error) {
	request, ok := v.(ast.Object)
	if !ok {
		return nil, script.Errorf(script.Invalid, "args[0]", "not a request, which the input %s wants: an object with method, path and headers", script.RegoInputEnvoy)
	}
	member := func(name string) string {
		if t := request.Get(ast.InternedTerm(name)); t != nil {
			return text(t)
		}
		return ""
	}
	path, query := member("path"), member("query")
	target := path
	if query != "" {
		target += "?" + query
	}
	headers := envoyHeaders(request)
	for name, value := range map[string]string{":authority": member("host"), ":method": member("method"), ":path": target, ":scheme": member("scheme")} {
		headers.Insert(ast.StringTerm(name), ast.StringTerm(value))
	}
	body := member("body")
	http := ast.NewObject(
		item("id", ast.String(headerOf(headers, "x-request-id"))), item("method", ast.String(member("method"))), item("path", ast.String(target)),
		item("host", ast.String(member("host"))), item("scheme", ast.String(member("scheme"))), item("headers", headers),
		item("protocol", ast.String("HTTP/1.1")), item("size", ast.String(strconv.Itoa(len(body)))),
	)
	if request.Get(ast.InternedTerm("body")) != nil {
		http.Insert(ast.InternedTerm("body"), ast.StringTerm(body))
	}
	source := ast.NewObject(item("address", socketAddress(member("remote_addr"))))
	if subject := member("client_certificate"); subject != "" {
		source.Insert(ast.InternedTerm("principal"), ast.StringTerm(subject))
	}
	attributes := ast.NewObject(item("source", source), item("destination", ast.NewObject(item("address", socketAddress("")))),
		item("request", ast.NewObject(item("http", http))))
	if params := request.Get(ast.InternedTerm("params")); params != nil {
		attributes.Insert(ast.InternedTerm("contextExtensions"), params)
	}
	input := ast.NewObject(item("attributes", attributes), item("parsed_path", parsedPath(path)), item("parsed_query", parsedQuery(query)),
		item("truncated_body", ast.Boolean(false)),
		item("version", ast.NewObject(item("encoding", ast.String("protojson")), item("ext_authz", ast.String("v3")))))
	if parsed := parsedBody(headerOf(headers, "content-type"), body); parsed != nil {
		input.Insert(ast.InternedTerm("parsed_body"), ast.NewTerm(parsed))
	}
	return input, nil
}

func socketAddress(address string) ast.Value {
	return ast.NewObject(item("socketAddress", ast.NewObject(item("address", ast.String(address)))))
}

// envoyHeaders returns headers as Envoy has them: the values of one that came more than once are joined.
func envoyHeaders(request ast.Object) ast.Object {
	headers := ast.NewObject()
	all := request.Get(ast.InternedTerm("headers"))
	if all == nil {
		return headers
	}
	if o, ok := all.Value.(ast.Object); ok {
		o.Foreach(func(name, value *ast.Term) {
			if list, ok := value.Value.(*ast.Array); ok {
				values := make([]string, 0, list.Len())
				list.Foreach(func(v *ast.Term) { values = append(values, text(v)) })
				value = ast.StringTerm(strings.Join(values, ","))
			}
			headers.Insert(name, value)
		})
	}
	return headers
}

func headerOf(headers ast.Object, name string) string {
	if t := headers.Get(ast.InternedTerm(name)); t != nil {
		return text(t)
	}
	return ""
}

func parsedPath(path string) ast.Value {
	var parts []*ast.Term
	for part := range strings.SplitSeq(strings.TrimLeft(path, "/"), "/") {
		parts = append(parts, ast.StringTerm(part))
	}
	return ast.NewArray(parts...)
}

func parsedQuery(query string) ast.Value {
	values, err := url.ParseQuery(query)
	parsed := ast.NewObject()
	if err != nil {
		return parsed
	}
	for name, list := range values {
		terms := make([]*ast.Term, len(list))
		for i, value := range list {
			terms[i] = ast.StringTerm(strings.ToValidUTF8(value, "\uFFFD"))
		}
		parsed.Insert(ast.StringTerm(strings.ToValidUTF8(name, "\uFFFD")), ast.ArrayTerm(terms...))
	}
	return parsed
}

// parsedBody returns what a body of JSON or of a form says; nil for others.
func parsedBody(contentType, body string) ast.Value {
	kind, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/json":
		if v, err := decode([]byte(body), maxNodes); err == nil {
			return v
		}
	case "application/x-www-form-urlencoded":
		return parsedQuery(body)
	}
	return nil
}

// envoyDecision returns the decision that the answer of a policy for opa-envoy-plugin stands for.
func envoyDecision(v ast.Value) (ast.Value, error) {
	answer, ok := v.(ast.Object)
	if !ok {
		if _, ok := v.(ast.Boolean); ok {
			return v, nil
		}
		return nil, script.Errorf(script.Script, "", "the rule is %s: with the input %s it has to be a boolean, or an object with allowed", ast.ValueName(v), script.RegoInputEnvoy)
	}
	get := func(name string) ast.Value {
		if t := answer.Get(ast.InternedTerm(name)); t != nil {
			return t.Value
		}
		return nil
	}
	allowed, ok := get("allowed").(ast.Boolean)
	if !ok {
		return nil, script.Errorf(script.Script, "", "the rule is an object without the boolean allowed")
	}
	decision := ast.NewObject(item("allow", allowed))
	put := func(name string, v ast.Value) {
		if v != nil {
			decision.Insert(ast.InternedTerm(name), ast.NewTerm(v))
		}
	}
	put("metadata", get("dynamic_metadata"))
	if !allowed {
		put("status", get("http_status"))
		put("body", get("body"))
		put("response_headers", changes(get("headers"), nil))
		return decision, nil
	}
	put("headers", changes(get("headers"), get("request_headers_to_remove")))
	put("response_headers", changes(get("response_headers_to_add"), nil))
	return decision, nil
}

// changes returns changes of headers; nil for none.
func changes(set, remove ast.Value) ast.Value {
	if set == nil && remove == nil {
		return nil
	}
	c := ast.NewObject()
	if list, ok := set.(*ast.Array); ok { // an array of objects is the same as one object
		merged := ast.NewObject()
		list.Foreach(func(t *ast.Term) {
			if o, ok := t.Value.(ast.Object); ok {
				o.Foreach(merged.Insert)
			}
		})
		set = merged
	}
	if set != nil {
		c.Insert(ast.InternedTerm("set"), ast.NewTerm(set))
	}
	if remove != nil {
		c.Insert(ast.InternedTerm("remove"), ast.NewTerm(remove))
	}
	return c
}
