//! Scripts run outside of a module, too, so that people can test theirs.

use scriptorium::testing::{with_host, Host};
use scriptorium::{call, call_json, config, kv_get, kv_keys, log_info, quote, rate_limit, Decision, Json, Request};

fn decide(request: &Request) -> Decision {
    log_info(&request.method());
    match kv_get(&format!("users/{}", request.cookie("user").unwrap_or_default())) {
        None => Decision::redirect(format!("/login?to={}", request.path())),
        Some(plan) => Decision::allow()
            .upstream(config().get("upstream").text())
            .set_header("x-plan", String::from_utf8_lossy(&plan)),
    }
}

scriptorium::handle!(decide);

#[test]
fn decides() {
    let values = [("users/ann".into(), b"pro".to_vec())].into();
    with_host(|host| *host = Host { config: r#" {"upstream":"cart"} "#.into(), values, ..Host::default() });
    assert_eq!(
        call(r#" {"method":"GET","path":"/","headers":{"cookie":["a=1; user=ann"]}} "#, decide),
        r#"{"headers":{"set":{"x-plan":"pro"}},"upstream":"cart"}"#
    );
    assert_eq!(call(r#"{"method":"GET","path":"/a"}"#, decide), r#"{"redirect":"/login?to=/a"}"#);
    assert_eq!(with_host(|host| host.lines.clone()), ["GET", "GET"]);
    assert_eq!(kv_keys("users/", "", 10), ["users/ann"]);
    assert_eq!(call_json("\"ann\"", |name: &str| name.to_string()), "\"ann\"");
}

#[test]
#[should_panic(expected = "no user")]
fn fails() {
    call("null", |_: &Request| -> Result<Decision, &str> { Err("no user") });
}

#[test]
fn waits() {
    with_host(|host| host.wait = 1.5);
    assert_eq!(rate_limit("a", 1.0, 1.0, 1.0), Err(1.5));
}

#[test]
fn reads_json() {
    let v = Json::parse(r#" {"a":1,"b":[true,null, -1.5e+3, {} ],"a":"\ud83d\ude00\ud800x\u00e9\/","c":[]} "#).unwrap();
    assert_eq!(v.get("a").text(), "\u{1f600}\u{fffd}x\u{e9}/");
    let b: Vec<_> = v.get("b").items().collect();
    assert_eq!((b[0].as_bool(), b[1].is_null(), b[2].as_f64(), b[3].raw()), (Some(true), true, Some(-1500.0), "{}"));
    assert_eq!((v.get("c").items().count(), v.get("d").exists(), v.get("d").get("e").raw()), (0, false, "null"));
    for wrong in ["", "01", "[1,]", "{\"a\"}", "\"\u{1}\"", "-", "1.", "1e", r#""\u12""#, "tru", "[1 2]", r#"{"a":1,}"#, r#""\q""#, "1 2", r#""\u+123""#] {
        assert!(Json::parse(wrong).is_none(), "{}", wrong);
    }
    assert!(Json::parse(&("[".repeat(65) + &"]".repeat(65))).is_none());
}

#[test]
fn writes_json() {
    assert_eq!(quote("a\"\\\n\u{1}é"), "\"a\\\"\\\\\\n\\u0001é\"");
}
