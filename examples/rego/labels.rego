# Objects of Kubernetes need labels, with values of a form. The settings are the script's config:
#
#     labels:
#       - key: team
#         pattern: ^[a-z]+-team$
#
# The input is an AdmissionReview. The decision has a message for each thing that is wrong.
package kubernetes.labels

default decision := {"allowed": true, "messages": []}

decision := {"allowed": false, "messages": sort(messages)} if count(messages) > 0

object_labels := object.get(input.request.object.metadata, "labels", {})

messages contains sprintf("the label %s is missing", [wanted.key]) if {
	some wanted in data.config.labels
	not wanted.key in object.keys(object_labels)
}

messages contains sprintf("the label %s is %q, which does not match %s", [wanted.key, value, wanted.pattern]) if {
	some wanted in data.config.labels
	value := object_labels[wanted.key]
	not regex.match(wanted.pattern, value)
}
