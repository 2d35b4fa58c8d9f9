package manifest

import (
	"reflect"
	"strings"
)

// The types of this file are what a person writes. The decoder takes the names of the fields from them, and
// internal/schema the JSON Schemas that editors read, with the comments as descriptions.

// TestDocument is a test file, such as route_test.yaml: cases for one script.
type TestDocument struct {
	// The manifest of the script, relative to this file. The name of this file without _test unless set.
	Script string `json:"script,omitempty" jsonschema:"minLength=1"`
	// The script as tenant/name, if the manifest file has several.
	Name string `json:"name,omitempty" jsonschema:"minLength=1"`
	// What all cases have, unless they say otherwise.
	Defaults *TestWorld `json:"defaults,omitempty"`
	// The calls, and how each must end.
	Cases []TestCaseDocument `json:"cases" jsonschema:"minItems=1"`
}

// TestWorld is what surrounds a call.
type TestWorld struct {
	// What the script sees as config; the manifest's config unless set.
	Config map[string]any `json:"config,omitempty"`
	// Texts that the script reads with kv, by key.
	Values map[string]string `json:"values,omitempty"`
	// The time that the script sees. It stands still during the call.
	Now string `json:"now,omitempty" jsonschema:"format=date-time"`
	// Where random numbers begin: the same seed gives the same numbers.
	Seed int64 `json:"seed,omitempty" jsonschema:"minimum=0"`
}

// TestCaseDocument is one call, and how it must end.
type TestCaseDocument struct {
	// What the case is called; unique in the file.
	Name string `json:"name" jsonschema:"minLength=1"`
	// The argument of the call; {} unless set.
	Request any `json:"request,omitempty"`
	// Several arguments, in place of request.
	Args []any `json:"args,omitempty"`
	// What a gateway asks about, in place of request.
	Gateway *TestGateway `json:"gateway,omitempty"`
	// What the first result must contain.
	Expect any `json:"expect,omitempty"`
	// What the first result must equal.
	Exactly any `json:"exactly,omitempty"`
	// What all results together must equal.
	Results []any `json:"results,omitempty"`
	// The file with the JSON that the first result must equal, relative to this file.
	Golden string `json:"golden,omitempty" jsonschema:"minLength=1"`
	// RE2 expressions for texts in the first result, by JSON pointer, such as {/upstream: ^fast}.
	Matches map[string]string `json:"matches,omitempty" jsonschema:"minProperties=1"`
	// What the decision of the gateway must contain. It goes with gateway.
	Decision map[string]any `json:"decision,omitempty"`
	// The error that the call must end with: its kind, or an object with more of it.
	Error *TestError `json:"error,omitempty"`
	TestWorld
}

// TestError is the error that a call must end with.
type TestError struct {
	// The kind of the error.
	Kind string `json:"kind" jsonschema:"enum=SCRIPT,enum=LIMIT,enum=TIMEOUT"`
	// The line of the source.
	Line int `json:"line,omitempty" jsonschema:"minimum=1"`
	// An RE2 expression for the message.
	Message string `json:"message,omitempty" jsonschema:"minLength=1"`
}

// TestGateway is a request as a gateway sends it.
type TestGateway struct {
	// Path and query, such as /cart?id=7.
	URI string `json:"uri" jsonschema:"pattern=^/"`
	// Such as GET.
	Method string `json:"method,omitempty"`
	// http or https.
	Scheme string `json:"scheme,omitempty"`
	// The host that the client asks for.
	Host string `json:"host,omitempty"`
	// The client's IP address.
	RemoteAddr string `json:"remote_addr,omitempty"`
	// The subject of the client's certificate.
	ClientCertificate string `json:"client_certificate,omitempty"`
	// The gateway's name for the route.
	Route string `json:"route,omitempty"`
	// The body of the request.
	Body string `json:"body,omitempty"`
	// Headers by name. One that comes more than once has a list.
	Headers map[string]any `json:"headers,omitempty"`
	// Settings of the gateway for this call.
	Params map[string]any `json:"params,omitempty"`
}

// ChangeSetSpec is the spec of a ChangeSet: scripts and values that go live together.
type ChangeSetSpec struct {
	// The tenant of the scripts and values.
	TenantID string `json:"tenantId"`
	// Files with manifests, relative to this file.
	Scripts []string `json:"scripts,omitempty"`
	// New contents of values, by their keys.
	Values map[string]ChangeSetValue `json:"values,omitempty"`
	// The plan of the whole change set. Without it the plan of the scripts counts.
	Rollout any `json:"rollout,omitempty"`
}

// ChangeSetValue is the new content of a value. One field is set.
type ChangeSetValue struct {
	// A file with the content, relative to this file.
	File string `json:"file,omitempty"`
	// The content as text.
	Text string `json:"text,omitempty"`
	// The content as a JSON value.
	JSON any `json:"json,omitempty"`
}

// MetadataFields returns the fields of metadata that manifests may have.
func MetadataFields() []string { return metadataFields }

// fieldsOf returns the names of the fields of a document.
func fieldsOf[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}
