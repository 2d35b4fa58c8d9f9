# The twin of route.lua.
package acme.route

decision := {"upstream": moved}

moved := upstream if upstream := data.values[concat("/", ["upstreams", chosen])]

else := chosen

chosen := matching[0] if count(matching) > 0

else := data.config.beta if input.headers["x-beta"] == "yes"

else := data.config["default"]

matching := [route.upstream |
	some route in data.config.routes
	startswith(object.get(input, "path", ""), route.prefix)
]
