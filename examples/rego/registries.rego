# Images of containers come from the registries that the script's config names:
#
#     registries: [registry.example/shop, registry.example/base]
#
# The input is an AdmissionReview of a pod, or of an object with a template of pods.
package kubernetes.registries

default decision := {"allowed": true, "messages": []}

decision := {"allowed": false, "messages": sort(messages)} if count(messages) > 0

object := input.request.object

specs contains object.spec if object.kind == "Pod"

specs contains object.spec.template.spec

containers contains container if {
	some spec in specs
	some list in ["containers", "initContainers", "ephemeralContainers"]
	some container in spec[list]
}

messages contains sprintf("the container %s has the image %s, which is not from %s", [container.name, container.image, concat(" or ", data.config.registries)]) if {
	some container in containers
	not trusted(container.image)
}

# The slash keeps registry.example/shop from matching registry.example/shopping.
trusted(image) if {
	some registry in data.config.registries
	startswith(image, concat("", [trim_suffix(registry, "/"), "/"]))
}
