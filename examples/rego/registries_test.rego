package kubernetes.registries_test

import data.kubernetes.registries

settings := {"registries": ["registry.example/shop"]}

pod(image) := {"request": {"object": {"kind": "Pod", "spec": {"containers": [{"name": "web", "image": image}]}}}}

deployment(image) := {"request": {"object": {
	"kind": "Deployment",
	"spec": {"template": {"spec": {"containers": [], "initContainers": [{"name": "setup", "image": image}]}}},
}}}

test_trusted_image_is_allowed if {
	registries.decision.allowed with input as pod("registry.example/shop/web:1") with data.config as settings
}

test_other_registry_is_refused if {
	decision := registries.decision with input as pod("docker.example/web:1") with data.config as settings
	decision.messages == ["the container web has the image docker.example/web:1, which is not from registry.example/shop"]
}

test_longer_name_is_refused if {
	not registries.decision.allowed with input as pod("registry.example/shopping/web") with data.config as settings
}

test_init_containers_of_templates_count if {
	not registries.decision.allowed with input as deployment("docker.example/setup") with data.config as settings
	registries.decision.allowed with input as deployment("registry.example/shop/setup") with data.config as settings
}
