use scriptorium::{config, Decision, Request};

scriptorium::handle!(decide);

fn decide(request: &Request) -> Decision {
    if request.path().starts_with("/admin") {
        return Decision::deny(403, "not you\n");
    }
    Decision::allow().upstream(config().get("default").text())
}
