package kubernetes.labels_test

import data.kubernetes.labels

settings := {"labels": [{"key": "team", "pattern": "^[a-z]+-team$"}]}

review(found) := {"request": {"object": {"kind": "Pod", "metadata": {"name": "web", "labels": found}}}}

test_matching_label_is_allowed if {
	labels.decision.allowed with input as review({"team": "shop-team"}) with data.config as settings
}

test_missing_label_is_refused if {
	decision := labels.decision with input as review({"app": "web"}) with data.config as settings
	decision == {"allowed": false, "messages": ["the label team is missing"]}
}

test_other_form_is_refused if {
	decision := labels.decision with input as review({"team": "SHOP"}) with data.config as settings
	not decision.allowed
	count(decision.messages) == 1
}

test_object_without_labels_is_refused if {
	request := {"request": {"object": {"metadata": {"name": "web"}}}}
	not labels.decision.allowed with input as request with data.config as settings
}
