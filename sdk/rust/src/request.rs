use std::borrow::Cow;

use crate::Json;

/// An HTTP request, as a gateway describes it. A field that the gateway does not send is "".
#[derive(Clone, Copy, Debug)]
pub struct Request<'a>(Json<'a>);

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])* pub fn $name(&self) -> Cow<'a, str> { self.0.get(stringify!($name)).text() })*
    };
}

impl<'a> Request<'a> {
    pub(crate) fn new(text: &'a str) -> Request<'a> {
        Request(Json::trusted(text))
    }

    fields! {
        /// Such as `GET`.
        method
        /// Such as `https`.
        scheme
        host
        /// Without the query, and clean: no `//` and no `..`.
        path
        /// The path as the client sent it, if [`path`](Self::path) differs.
        raw_path
        /// What follows the `?`, unchanged.
        query
        /// The client's IP address.
        remote_addr
        body
        /// The subject of the client's certificate.
        client_certificate
        /// The gateway's name for the route.
        route
        /// The tenant of the script.
        tenant
    }

    /// The whole request, with `params` and whatever else a caller sends.
    pub fn json(&self) -> Json<'a> {
        self.0
    }

    /// A header, the first one if it came more than once. The case of the name does not matter.
    pub fn header(&self, name: &str) -> Option<Cow<'a, str>> {
        let value = self.0.get("headers").get(&name.to_ascii_lowercase());
        value.as_str().or_else(|| value.items().next()?.as_str())
    }

    /// All values of a header.
    pub fn header_values(&self, name: &str) -> Vec<String> {
        self.0.get("headers").get(&name.to_ascii_lowercase()).texts()
    }

    /// A cookie, the first one of that name.
    pub fn cookie(&self, name: &str) -> Option<String> {
        const BLANK: &[char] = &[' ', '\t'];
        for header in self.header_values("cookie") {
            for (n, value) in header.split(';').filter_map(|pair| pair.split_once('=')) {
                if n.trim_matches(BLANK) == name {
                    let value = value.trim_matches(BLANK);
                    let value = value.strip_prefix('"').unwrap_or(value);
                    return Some(value.strip_suffix('"').unwrap_or(value).into());
                }
            }
        }
        None
    }

    /// A parameter of the query, the first one of that name.
    pub fn query_param(&self, name: &str) -> Option<String> {
        let query = self.query();
        let mut pairs = query.split('&').filter(|pair| !pair.is_empty());
        pairs.find_map(|pair| {
            let (n, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(n) == name).then(|| unescape(value))
        })
    }
}

/// Decodes `+` and `%20`. What is no escape stays.
fn unescape(s: &str) -> String {
    let (bytes, mut out, mut i) = (s.as_bytes(), Vec::with_capacity(s.len()), 0);
    let digit = |i: usize| bytes.get(i).and_then(|c| (*c as char).to_digit(16));
    while i < bytes.len() {
        match (bytes[i], digit(i + 1), digit(i + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                i += 2;
            }
            (b'+', _, _) => out.push(b' '),
            (c, _, _) => out.push(c),
        }
        i += 1;
    }
    String::from_utf8(out).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}
