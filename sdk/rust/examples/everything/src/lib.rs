//! Calls each function of the SDK, by the path of the request. The tests run it.

use scriptorium::{Cookie, Decision, Json, Request};

scriptorium::handle!(decide);

fn decide(r: &Request) -> Result<Option<Decision>, String> {
    let body = r.body();
    Ok(Some(match &*r.path() {
        "/nothing" => return Ok(None),
        "/log" => {
            scriptorium::log_info(&body);
            scriptorium::log_warn(&body);
            scriptorium::log_error(&body);
            Decision::allow()
        }
        "/fail" => scriptorium::fail(&body),
        "/error" => return Err(body.into()),
        "/panic" => panic!("{}", body),
        "/deny" => Decision::deny(403, body),
        "/redirect" => Decision::redirect("/login").status(303),
        "/decision" => decision(),
        _ => ask(r),
    }))
}

/// Asks the agent.
fn ask(r: &Request) -> Decision {
    let (d, body) = (Decision::allow(), r.body());
    match &*r.path() {
        "/config" => d.metadata_json("config", scriptorium::config()),
        "/kv" => match scriptorium::kv_get(&body) {
            Some(content) => d.metadata("content", String::from_utf8_lossy(&content)),
            None => d.metadata("missing", body),
        },
        "/keys" => scriptorium::kv_keys(&body, &r.query(), 2).iter().fold(d, |d, key| d.metadata(key, "there")),
        "/counter" => d.metadata_json("counter", number(scriptorium::counter_add(&body, 2.5))),
        "/ratelimit" => match scriptorium::rate_limit(&body, 1.0, 10.0, 20.0) {
            Ok(()) => d,
            Err(wait) => Decision::deny(429, "later").rate_limit(20, 0, wait.ceil() as u64),
        },
        _ => echo(r),
    }
}

/// Returns what the SDK reads from a request.
fn echo(r: &Request) -> Decision {
    let mode = r.json().get("params").get("mode");
    Decision::allow()
        .metadata("method", r.method())
        .metadata("scheme", r.scheme())
        .metadata("host", r.host())
        .metadata("path", r.path())
        .metadata("query", r.query())
        .metadata("remote_addr", r.remote_addr())
        .metadata("body", r.body())
        .metadata("tenant", r.tenant())
        .metadata("header", r.header("X-Name").unwrap_or_default())
        .metadata("cookie", r.cookie("session").unwrap_or_default())
        .metadata("param", r.query_param("q").unwrap_or_default())
        .metadata_json("values", number(r.header_values("x-list").len() as f64))
        .metadata("mode", mode.as_str().unwrap_or("none".into()))
}

fn decision() -> Decision {
    Decision::allow()
        .upstream("cart")
        .path("/v2")
        .query("a=1")
        .set_header("x-user", "ann")
        .set_header("X-User", "\"bob\"")
        .append_header("via", "a")
        .append_header("via", "b")
        .remove_header("x-old")
        .set_response_header("x-frame-options", "DENY")
        .append_response_header("link", "<a>")
        .remove_response_header("server")
        .cookie(Cookie {
            name: "session".into(),
            value: "42".into(),
            path: "/a".into(),
            max_age: Some(0),
            same_site: "strict".into(),
            insecure: true,
            ..Cookie::default()
        })
        .vary("accept")
        .rate_limit(10, 9, 1)
        .metadata("variant", "b\n\u{1}é")
}

fn number(n: f64) -> Json<'static> {
    Json::parse(Box::leak(n.to_string().into_boxed_str())).unwrap_or_default()
}
