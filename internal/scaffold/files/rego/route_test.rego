# scriptctl test runs these tests; opa test does, too.
package route_test

import data.route

test_everybody_reads if route.decision.allow with input as {"method": "GET"} with data.config as {"admins": []}

test_admins_write if {
	request := {"method": "PUT", "headers": {"x-user": "ann"}}
	route.decision.allow with input as request with data.config as {"admins": ["ann"]}
}

test_others_do_not_write if {
	request := {"method": "PUT", "headers": {"x-user": "bob"}}
	not route.decision.allow with input as request with data.config as {"admins": ["ann"]}
}
