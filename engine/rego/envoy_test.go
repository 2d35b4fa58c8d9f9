package rego_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// An ordinary policy for opa-envoy-plugin.
const envoyPolicy = `package envoy.authz

import input.attributes.request.http as http_request

default allow := {"allowed": false, "headers": {"x-reason": "no"}, "body": "not you", "http_status": 401}

allow := {
	"allowed": true,
	"headers": {"x-user": user},
	"response_headers_to_add": {"x-policy": "1"},
	"request_headers_to_remove": ["authorization"],
	"dynamic_metadata": {"user": user},
} if {
	http_request.method == "GET"
	input.parsed_path = ["people", user]
	input.parsed_query.lang[0] == "en"
	input.parsed_body.name == user
	http_request.headers.authorization == "Basic x,Basic y"
	http_request.headers[":authority"] == "shop.example"
	http_request.path == "/people/ann?lang=en"
	input.attributes.source.address.socketAddress.address == "192.0.2.7"
	input.version.ext_authz == "v3"
	input.truncated_body == false
}
`

func TestEnvoy(t *testing.T) {
	request := `{"tenant":"acme","method":"GET","scheme":"https","host":"shop.example","path":"/people/ann","query":"lang=en","remote_addr":"192.0.2.7",` +
		`"headers":{"authorization":["Basic x","Basic y"],"content-type":"application/json; charset=utf-8"},"body":"{\"name\":\"ann\"}","params":{}}`
	for _, target := range []string{"wasm", "interpreted"} {
		src := source(envoyPolicy, target)
		src.Runtime.Rego.Input = script.RegoInputEnvoy
		for arg, want := range map[string]string{
			request: `{"allow":true,"headers":{"remove":["authorization"],"set":{"x-user":"ann"}},"metadata":{"user":"ann"},"response_headers":{"set":{"x-policy":"1"}}}`,
			`{}`:    `{"allow":false,"body":"not you","response_headers":{"set":{"x-reason":"no"}},"status":401}`,
		} {
			if got, err := run(t, src, &engine.Invocation{Args: [][]byte{[]byte(arg)}}); err != nil || got != want {
				t.Errorf("%s: got %s, %v, want %s", target, got, err, want)
			}
		}
	}
}
