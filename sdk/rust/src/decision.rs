use crate::json::push_quoted;
use crate::{quote, Json};

/// What a gateway does with a request. Its methods change it and return it, so that calls can follow one another.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Decision {
    denied: bool,
    status: u16,
    body: String,
    redirect: String,
    request: Headers,
    response: Headers,
    cookies: Vec<Cookie>,
    vary: Vec<String>,
    limit: Option<[u64; 3]>,
    upstream: String,
    path: String,
    query: Option<String>,
    metadata: Vec<(String, String)>,
}

/// Changes of headers.
#[derive(Clone, Debug, Default)]
struct Headers {
    set: Vec<(String, Vec<String>)>,
    append: Vec<(String, Vec<String>)>,
    remove: Vec<String>,
}

/// A cookie for the client. What is `None`, false or empty has the default of Scriptorium: path `/`, secure, HTTP
/// only, same site lax.
#[derive(Clone, Debug, Default)]
pub struct Cookie {
    pub name: String,
    pub value: String,
    pub path: String,
    pub domain: String,
    /// Seconds; 0 deletes the cookie.
    pub max_age: Option<u64>,
    /// Also over plain HTTP.
    pub insecure: bool,
    /// Also for scripts in the browser.
    pub scripts: bool,
    pub same_site: String,
}

impl Decision {
    /// Sends the request on. Without changes, it goes on as it is.
    pub fn allow() -> Decision {
        Decision::default()
    }

    /// Has the gateway answer in the upstream's place.
    pub fn deny(status: u16, body: impl Into<String>) -> Decision {
        Decision { denied: true, status, body: body.into(), ..Decision::default() }
    }

    /// Sends the client elsewhere, with the status 302.
    pub fn redirect(location: impl Into<String>) -> Decision {
        Decision { redirect: location.into(), ..Decision::default() }
    }

    /// Sets the status of the gateway's answer: of a denial, or of a redirect.
    pub fn status(mut self, status: u16) -> Decision {
        self.status = status;
        self
    }

    /// Says where the request goes, by a name that the gateway knows.
    pub fn upstream(mut self, name: impl Into<String>) -> Decision {
        self.upstream = name.into();
        self
    }

    /// Replaces the path of the request.
    pub fn path(mut self, path: impl Into<String>) -> Decision {
        self.path = path.into();
        self
    }

    /// Replaces the query of the request.
    pub fn query(mut self, query: impl Into<String>) -> Decision {
        self.query = Some(query.into());
        self
    }

    /// Replaces a header of the request to the upstream.
    pub fn set_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Decision {
        set(&mut self.request.set, name.into(), value.into());
        self
    }

    /// Adds a value to a header of the request to the upstream.
    pub fn append_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Decision {
        append(&mut self.request.append, name.into(), value.into());
        self
    }

    /// Removes a header of the request to the upstream.
    pub fn remove_header(mut self, name: impl Into<String>) -> Decision {
        self.request.remove.push(name.into());
        self
    }

    /// Replaces a header of the response to the client.
    pub fn set_response_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Decision {
        set(&mut self.response.set, name.into(), value.into());
        self
    }

    /// Adds a value to a header of the response to the client.
    pub fn append_response_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Decision {
        append(&mut self.response.append, name.into(), value.into());
        self
    }

    /// Removes a header of the response to the client.
    pub fn remove_response_header(mut self, name: impl Into<String>) -> Decision {
        self.response.remove.push(name.into());
        self
    }

    /// Sets a cookie of the client.
    pub fn cookie(mut self, cookie: Cookie) -> Decision {
        self.cookies.push(cookie);
        self
    }

    /// Names a request header that the answer depends on.
    pub fn vary(mut self, header: impl Into<String>) -> Decision {
        self.vary.push(header.into());
        self
    }

    /// Adds the headers `RateLimit-Limit`, `-Remaining` and `-Reset`. With the status 429 the client gets
    /// `Retry-After`, too. `reset` is in seconds.
    pub fn rate_limit(mut self, limit: u64, remaining: u64, reset: u64) -> Decision {
        self.limit = Some([limit, remaining, reset]);
        self
    }

    /// Adds a text for the gateway's own use.
    pub fn metadata(self, name: impl Into<String>, text: impl AsRef<str>) -> Decision {
        self.insert(name.into(), quote(text.as_ref()))
    }

    /// Adds a value for the gateway's own use.
    pub fn metadata_json(self, name: impl Into<String>, value: Json) -> Decision {
        self.insert(name.into(), value.raw().into())
    }

    fn insert(mut self, name: String, value: String) -> Decision {
        match self.metadata.iter_mut().find(|(n, _)| *n == name) {
            Some(member) => member.1 = value,
            None => self.metadata.push((name, value)),
        }
        self
    }

    /// The decision as gateways read it.
    pub fn to_json(&self) -> String {
        let mut w = Object::new();
        if self.denied {
            w.raw("allow", "false");
        }
        if self.status != 0 {
            w.raw("status", &self.status.to_string());
        }
        w.text("body", &self.body);
        w.text("redirect", &self.redirect);
        w.headers("headers", &self.request);
        w.headers("response_headers", &self.response);
        if !self.cookies.is_empty() {
            let all: Vec<_> = self.cookies.iter().map(Cookie::to_json).collect();
            w.raw("cookies", &list(&all));
        }
        w.texts("vary", &self.vary);
        if let Some([limit, remaining, reset]) = self.limit {
            let mut inner = Object::new();
            inner.raw("limit", &limit.to_string());
            inner.raw("remaining", &remaining.to_string());
            inner.raw("reset", &reset.to_string());
            w.raw("rate_limit", &inner.end());
        }
        w.text("upstream", &self.upstream);
        w.text("path", &self.path);
        if let Some(query) = &self.query {
            w.raw("query", &quote(query));
        }
        if !self.metadata.is_empty() {
            let mut inner = Object::new();
            for (name, value) in &self.metadata {
                inner.raw(name, value);
            }
            w.raw("metadata", &inner.end());
        }
        w.end()
    }
}

impl Cookie {
    fn to_json(&self) -> String {
        let mut w = Object::new();
        w.raw("name", &quote(&self.name));
        w.text("value", &self.value);
        w.text("path", &self.path);
        w.text("domain", &self.domain);
        if let Some(seconds) = self.max_age {
            w.raw("max_age", &seconds.to_string());
        }
        if self.insecure {
            w.raw("secure", "false");
        }
        if self.scripts {
            w.raw("http_only", "false");
        }
        w.text("same_site", &self.same_site);
        w.end()
    }
}

type Values = Vec<(String, Vec<String>)>;

/// A decision may have each header once, whatever the case of its name.
fn find<'a>(all: &'a mut Values, name: &str) -> Option<&'a mut Vec<String>> {
    all.iter_mut().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, values)| values)
}

fn set(all: &mut Values, name: String, value: String) {
    match find(all, &name) {
        Some(values) => *values = vec![value],
        None => all.push((name, vec![value])),
    }
}

fn append(all: &mut Values, name: String, value: String) {
    match find(all, &name) {
        Some(values) => values.push(value),
        None => all.push((name, vec![value])),
    }
}

/// A JSON object that is being written.
struct Object(String);

impl Object {
    fn new() -> Object {
        Object(with_room("{"))
    }

    fn raw(&mut self, name: &str, value: &str) {
        self.name(name);
        self.0.push_str(value);
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_quoted(&mut self.0, name);
        self.0.push(':');
    }

    /// Writes a text that is not empty.
    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.name(name);
            push_quoted(&mut self.0, text);
        }
    }

    fn texts(&mut self, name: &str, texts: &[String]) {
        if !texts.is_empty() {
            self.raw(name, &quote_all(texts));
        }
    }

    fn headers(&mut self, name: &str, headers: &Headers) {
        let mut inner = Object::new();
        for (change, all) in [("set", &headers.set), ("append", &headers.append)] {
            if all.is_empty() {
                continue;
            }
            let mut members = Object::new();
            for (header, values) in all {
                match values.as_slice() {
                    [value] => members.raw(header, &quote(value)),
                    _ => members.raw(header, &quote_all(values)),
                }
            }
            inner.raw(change, &members.end());
        }
        inner.texts("remove", &headers.remove);
        if inner.0.len() > 1 {
            self.raw(name, &inner.end());
        }
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A text that grows without a new allocation for each member.
fn with_room(text: &str) -> String {
    let mut roomy = String::with_capacity(256);
    roomy.push_str(text);
    roomy
}

fn quote_all(texts: &[String]) -> String {
    list(&texts.iter().map(|text| quote(text)).collect::<Vec<_>>())
}

fn list(values: &[String]) -> String {
    format!("[{}]", values.join(","))
}
