# Decides about requests of HTTP, with the input that opa-envoy-plugin has: spec.rego.input is envoy.
#
# Everybody may read public paths. A person who has a valid token of the issuer may read and change what is below
# /people/NAME with their own name. Tokens are signed with the key in data.values["jwt-secret"].
package envoy.authz

import input.attributes.request.http as request

default allow := {"allowed": false, "http_status": 401, "headers": {"www-authenticate": "Bearer"}, "body": "a token is needed\n"}

allow := {"allowed": true} if {
	request.method in {"GET", "HEAD"}
	input.parsed_path[0] in {"public", "health"}
}

allow := {"allowed": true, "headers": {"x-user": claims.sub}, "request_headers_to_remove": ["authorization"]} if {
	request.method in {"GET", "HEAD", "PUT"}
	input.parsed_path[0] == "people"
	input.parsed_path[1] == claims.sub
}

claims := payload if {
	startswith(request.headers.authorization, "Bearer ")
	token := trim_prefix(request.headers.authorization, "Bearer ")
	[valid, _, payload] := io.jwt.decode_verify(token, {
		"secret": data.values["jwt-secret"],
		"alg": "HS256",
		"iss": "https://login.example",
		"time": time.now_ns(),
	})
	valid
}
