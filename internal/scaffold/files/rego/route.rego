# Lets everybody read, and those write who are in the config.
package route

default decision := {"allow": false, "status": 403}

decision := {"allow": true} if input.method in {"GET", "HEAD"}

decision := {"allow": true} if {
	input.method == "PUT"
	input.headers["x-user"] in data.config.admins
}
