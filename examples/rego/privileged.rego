# No container runs as privileged, or gets more privileges than its parent has, or shares namespaces with its node.
# Namespaces that may do so are named in the script's config: exempt: [kube-system].
#
# The input is an AdmissionReview of a pod.
package kubernetes.privileged

default decision := {"allowed": true, "messages": []}

decision := {"allowed": false, "messages": sort(messages)} if {
	not exempt
	count(messages) > 0
}

exempt if input.request.namespace in data.config.exempt

spec := input.request.object.spec

containers contains container if {
	some list in ["containers", "initContainers", "ephemeralContainers"]
	some container in spec[list]
}

messages contains sprintf("the container %s is privileged", [container.name]) if {
	some container in containers
	container.securityContext.privileged
}

messages contains sprintf("the container %s may gain privileges: set allowPrivilegeEscalation to false", [container.name]) if {
	some container in containers
	object.get(container, ["securityContext", "allowPrivilegeEscalation"], true)
}

messages contains sprintf("the pod uses %s", [field]) if {
	some field in ["hostNetwork", "hostPID", "hostIPC"]
	spec[field]
}
