// Calls each function of the SDK, by the path of the request. The tests run it.
import {
  Cookie, Decision, Json, Level, Request, config, counterAdd, fail, kvGet, kvKeys, log, onRequest, rateLimit,
} from "scriptorium-sdk";
export { handle, scriptorium_alloc } from "scriptorium-sdk";

onRequest((r: Request): Decision | null => {
  const path = r.path;
  if (path == "/nothing") return null;
  if (path == "/log") {
    log(r.body);
    log(r.body, Level.Warn);
    log(r.body, Level.Error);
    return Decision.allow();
  }
  if (path == "/fail") fail(r.body);
  if (path == "/error") throw new Error(r.body);
  if (path == "/deny") return Decision.deny(403, r.body);
  if (path == "/redirect") return Decision.redirect("/login").status(303);
  if (path == "/decision") return decision();
  return ask(r);
});

// ask asks the agent.
function ask(r: Request): Decision {
  const d = Decision.allow();
  const path = r.path;
  if (path == "/config") return d.metadataJSON("config", config());
  if (path == "/kv") {
    const content = kvGet(r.body);
    return content !== null ? d.metadata("content", content) : d.metadata("missing", r.body);
  }
  if (path == "/keys") {
    const keys = kvKeys(r.body, r.query, 2);
    for (let i = 0; i < keys.length; i++) d.metadata(keys[i], "there");
    return d;
  }
  if (path == "/counter") return d.metadataJSON("counter", number(counterAdd(r.body, 2.5)));
  if (path == "/ratelimit") {
    const wait = rateLimit(r.body, 1, 10, 20);
    return wait == 0 ? d : Decision.deny(429, "later").rateLimit(20, 0, Math.ceil(wait) as i32);
  }
  return echo(r);
}

// echo returns what the SDK reads from a request.
function echo(r: Request): Decision {
  return Decision.allow()
    .metadata("method", r.method)
    .metadata("scheme", r.scheme)
    .metadata("host", r.host)
    .metadata("path", r.path)
    .metadata("query", r.query)
    .metadata("remote_addr", r.remoteAddr)
    .metadata("body", r.body)
    .metadata("tenant", r.tenant)
    .metadata("header", r.header("X-Name"))
    .metadata("cookie", r.cookie("session"))
    .metadata("param", r.queryParam("q"))
    .metadataJSON("values", number(r.headerValues("x-list").length))
    .metadata("mode", r.json.get("params").get("mode").text("none"));
}

function decision(): Decision {
  const session = new Cookie("session", "42");
  session.path = "/a";
  session.maxAge = 0;
  session.sameSite = "strict";
  session.secure = false;
  return Decision.allow()
    .upstream("cart")
    .path("/v2")
    .query("a=1")
    .setHeader("x-user", "ann")
    .setHeader("X-User", '"bob"')
    .appendHeader("via", "a")
    .appendHeader("via", "b")
    .removeHeader("x-old")
    .setResponseHeader("x-frame-options", "DENY")
    .appendResponseHeader("link", "<a>")
    .removeResponseHeader("server")
    .cookie(session)
    .vary("accept")
    .rateLimit(10, 9, 1)
    .metadata("variant", "b\n\x01é");
}

function number(n: f64): Json {
  const value = Json.parse(n.toString());
  return value ? value : Json.missing();
}
