package kubernetes.privileged_test

import data.kubernetes.privileged

review(context) := {"request": {
	"namespace": "shop",
	"object": {"kind": "Pod", "spec": {"containers": [{"name": "web", "securityContext": context}]}},
}}

careful := {"allowPrivilegeEscalation": false}

test_ordinary_container_is_allowed if {
	privileged.decision.allowed with input as review(careful) with data.config as {}
}

test_privileged_container_is_refused if {
	context := object.union(careful, {"privileged": true})
	decision := privileged.decision with input as review(context) with data.config as {}
	decision.messages == ["the container web is privileged"]
}

test_escalation_has_to_be_off if {
	decision := privileged.decision with input as review({}) with data.config as {}
	count(decision.messages) == 1
}

test_host_network_is_refused if {
	request := {"request": {"namespace": "shop", "object": {"spec": {"hostNetwork": true, "containers": []}}}}
	decision := privileged.decision with input as request with data.config as {}
	decision.messages == ["the pod uses hostNetwork"]
}

test_exempt_namespace_is_allowed if {
	privileged.decision.allowed with input as review({"privileged": true}) with data.config as {"exempt": ["shop"]}
}
