//! Chooses the upstream of a request, by the path and a header: see ../../../README.md.

use scriptorium::{config, kv_get, Decision, Json, Request};

scriptorium::handle!(decide);

fn decide(request: &Request) -> Result<Decision, std::string::FromUtf8Error> {
    let mut upstream = choose(request, config());
    // A value of the tenant moves an upstream without a new version.
    if let Some(moved) = kv_get(&format!("upstreams/{}", upstream)) {
        upstream = String::from_utf8(moved)?;
    }
    Ok(Decision::allow().upstream(upstream))
}

/// Takes the first prefix that fits, so the longer ones come first in the config.
fn choose(request: &Request, config: Json) -> String {
    let path = request.path();
    for route in config.get("routes").items() {
        if path.starts_with(&*route.get("prefix").text()) {
            return route.get("upstream").text().into();
        }
    }
    if request.header("x-beta").as_deref() == Some("yes") {
        return config.get("beta").text().into();
    }
    config.get("default").text().into()
}
