package envoy.authz_test

import data.envoy.authz

# Signed with the text "not a secret": {"iss": "https://login.example", "sub": "ann"}.
token := "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhbm4ifQ.8CYsbQFTQTEcrjA8R_qTbb7pjfg1r6at6x-lk132_tU"

ask(method, path, headers) := decision if {
	request := {
		"attributes": {"request": {"http": {"method": method, "headers": headers}}},
		"parsed_path": split(trim_left(path, "/"), "/"),
	}
	decision := authz.allow with input as request with data.values as {"jwt-secret": "not a secret"}
}

test_public_paths_are_open if ask("GET", "/public/logo.svg", {}).allowed

test_public_paths_are_read_only if not ask("POST", "/public/logo.svg", {}).allowed

test_person_without_token_is_refused if ask("GET", "/people/ann", {}).http_status == 401

test_person_reads_their_own if {
	decision := ask("GET", "/people/ann", {"authorization": concat(" ", ["Bearer", token])})
	decision.headers == {"x-user": "ann"}
}

test_person_does_not_read_those_of_others if {
	not ask("GET", "/people/bob", {"authorization": concat(" ", ["Bearer", token])}).allowed
}

test_changed_token_is_refused if {
	not ask("GET", "/people/ann", {"authorization": concat("", ["Bearer ", token, "x"])}).allowed
}
