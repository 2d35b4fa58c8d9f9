//! JSON as text, which is read when somebody asks for it.

use std::borrow::Cow;

/// How deep a value may be. Arguments, configs and results are at most 32 levels deep.
const MAX_DEPTH: usize = 64;

/// A JSON value. A value that is missing reads as null.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// Returns the JSON value that a text is.
    pub fn parse(text: &'a str) -> Option<Json<'a>> {
        let start = blanks(text, 0);
        let end = skip(text, start, MAX_DEPTH)?;
        (blanks(text, end) == text.len()).then(|| Json(&text[start..end]))
    }

    /// The value that a text is, which the agent has checked.
    pub(crate) fn trusted(text: &'a str) -> Json<'a> {
        Json(text.trim_matches(|c| matches!(c, ' ' | '\n' | '\t' | '\r')))
    }

    /// The value as it is written.
    pub fn raw(self) -> &'a str {
        if self.exists() {
            self.0
        } else {
            "null"
        }
    }

    /// Whether there is a value, which may be null.
    pub fn exists(self) -> bool {
        !self.0.is_empty()
    }

    /// Whether the value is null or missing.
    pub fn is_null(self) -> bool {
        self.raw() == "null"
    }

    pub fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    pub fn as_str(self) -> Option<Cow<'a, str>> {
        self.0.starts_with('"').then(|| unquote(&self.0[1..self.0.len() - 1]))
    }

    pub fn as_f64(self) -> Option<f64> {
        self.0.starts_with(|c: char| c == '-' || c.is_ascii_digit()).then(|| self.0.parse().ok())?
    }

    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// A string, and "" for all other values.
    pub fn text(self) -> Cow<'a, str> {
        self.as_str().unwrap_or_default()
    }

    /// A member of an object. If a name comes twice, the last one counts, as in other engines.
    pub fn get(self, name: &str) -> Json<'a> {
        let mut found = Json::default();
        for (n, value) in self.members() {
            if n == name {
                found = value;
            }
        }
        found
    }

    /// The members of an object in their order, and none of all other values.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Json<'a>)> {
        Entries::new(self.0, b'{')
    }

    /// The elements of an array, and none of all other values.
    pub fn items(self) -> impl Iterator<Item = Json<'a>> {
        Entries::new(self.0, b'[').map(|(_, value)| value)
    }

    /// The strings of an array, or a string as the only one: headers are either.
    pub fn texts(self) -> Vec<String> {
        match self.as_str() {
            Some(text) => vec![text.into_owned()],
            None => self.items().map(|item| item.text().into_owned()).collect(),
        }
    }
}

/// The members of an object, or the elements of an array with empty names.
struct Entries<'a> {
    text: &'a str,
    next: usize, // 0 at the end
    named: bool,
}

impl<'a> Entries<'a> {
    fn new(text: &'a str, open: u8) -> Entries<'a> {
        let mut next = 0;
        if text.as_bytes().first() == Some(&open) {
            next = blanks(text, 1);
            if next == text.len() - 1 {
                next = 0;
            }
        }
        Entries { text, next, named: open == b'{' }
    }

    fn entry(&mut self) -> Option<(Cow<'a, str>, Json<'a>)> {
        let (text, mut i, mut name) = (self.text, self.next, "");
        if self.named {
            let end = end_of_string(text.as_bytes(), i);
            name = text.get(i + 1..end - 1)?;
            i = blanks(text, blanks(text, end) + 1); // the colon
        }
        let end = end_of(text.as_bytes(), i);
        self.next = blanks(text, end);
        if byte(text, self.next) == b',' {
            self.next = blanks(text, self.next + 1);
        } else {
            self.next = 0;
        }
        Some((unquote(name), Json(text.get(i..end)?)))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Cow<'a, str>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == 0 {
            return None;
        }
        self.entry()
    }
}

/// Where the value at i ends. Values are checked when they are made, so it looks for the end alone.
fn end_of(s: &[u8], mut i: usize) -> usize {
    match s.get(i) {
        Some(b'"') => end_of_string(s, i),
        Some(b'{' | b'[') => {
            let mut depth = 0;
            while i < s.len() {
                match s[i] {
                    b'"' => {
                        i = end_of_string(s, i);
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return i + 1;
                        }
                    }
                    _ => {}
                }
                i += 1;
            }
            i
        }
        _ => {
            while i < s.len() && !matches!(s[i], 0..=b' ' | b',' | b'}' | b']') {
                i += 1;
            }
            i
        }
    }
}

fn end_of_string(s: &[u8], mut i: usize) -> usize {
    i += 1;
    while i < s.len() && s[i] != b'"' {
        i += if s[i] == b'\\' { 2 } else { 1 };
    }
    i + 1
}

/// The byte at i, 0 behind the end.
fn byte(s: &str, i: usize) -> u8 {
    s.as_bytes().get(i).copied().unwrap_or(0)
}

fn blanks(s: &str, mut i: usize) -> usize {
    while matches!(byte(s, i), b' ' | b'\n' | b'\t' | b'\r') {
        i += 1;
    }
    i
}

/// Where the value that begins at i ends.
fn skip(s: &str, i: usize, depth: usize) -> Option<usize> {
    if depth == 0 {
        return None;
    }
    match byte(s, i) {
        b'{' => skip_list(s, i, depth, b'}'),
        b'[' => skip_list(s, i, depth, b']'),
        b'"' => skip_string(s, i),
        b't' => skip_word(s, i, "true"),
        b'f' => skip_word(s, i, "false"),
        b'n' => skip_word(s, i, "null"),
        _ => skip_number(s, i),
    }
}

fn skip_list(s: &str, i: usize, depth: usize, end: u8) -> Option<usize> {
    let mut i = blanks(s, i + 1);
    if byte(s, i) == end {
        return Some(i + 1);
    }
    loop {
        if end == b'}' {
            i = blanks(s, skip_string(s, i)?);
            if byte(s, i) != b':' {
                return None;
            }
            i = blanks(s, i + 1);
        }
        i = blanks(s, skip(s, i, depth - 1)?);
        match byte(s, i) {
            b',' => i = blanks(s, i + 1),
            c if c == end => return Some(i + 1),
            _ => return None,
        }
    }
}

fn skip_string(s: &str, mut i: usize) -> Option<usize> {
    if byte(s, i) != b'"' {
        return None;
    }
    loop {
        i += 1;
        match byte(s, i) {
            b'"' => return Some(i + 1),
            0..=0x1f => return None,
            b'\\' => {
                i += 1;
                match byte(s, i) {
                    b'u' => drop(hex4(s, i + 1)?),
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    _ => return None,
                }
            }
            _ => {}
        }
    }
}

fn skip_word(s: &str, i: usize, word: &str) -> Option<usize> {
    s.as_bytes()[i..].starts_with(word.as_bytes()).then(|| i + word.len())
}

fn skip_number(s: &str, mut i: usize) -> Option<usize> {
    if byte(s, i) == b'-' {
        i += 1;
    }
    let from = i;
    i = digits(s, i)?;
    if i > from + 1 && byte(s, from) == b'0' {
        return None;
    }
    if byte(s, i) == b'.' {
        i = digits(s, i + 1)?;
    }
    if matches!(byte(s, i), b'e' | b'E') {
        i += 1;
        if matches!(byte(s, i), b'+' | b'-') {
            i += 1;
        }
        i = digits(s, i)?;
    }
    Some(i)
}

fn digits(s: &str, from: usize) -> Option<usize> {
    let mut i = from;
    while byte(s, i).is_ascii_digit() {
        i += 1;
    }
    (i > from).then(|| i)
}

fn hex4(s: &str, i: usize) -> Option<u32> {
    let digits = s.get(i..i + 4)?;
    if !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// Decodes what is between the quotes of a string.
fn unquote(s: &str) -> Cow<'_, str> {
    if !s.contains('\\') {
        return Cow::Borrowed(s);
    }
    let mut out = String::with_capacity(s.len());
    let mut rest = s;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = byte(rest, at + 1);
        let mut end = at + 2;
        out.push(match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = hex4(rest, end).unwrap_or(0xfffd);
                end += 4;
                if (0xd800..0xdc00).contains(&code) && byte(rest, end) == b'\\' && byte(rest, end + 1) == b'u' {
                    if let Some(low @ 0xdc00..=0xdfff) = hex4(rest, end + 2) {
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                        end += 6;
                    }
                }
                char::from_u32(code).unwrap_or('\u{fffd}')
            }
            c => c as char,
        });
        rest = &rest[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A text as a JSON string.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

pub(crate) fn push_quoted(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    let mut plain = 0; // from here on, text is as it is in JSON
    for (i, c) in text.bytes().enumerate() {
        if c >= b' ' && c != b'"' && c != b'\\' {
            continue;
        }
        out.push_str(&text[plain..i]);
        plain = i + 1;
        out.push('\\');
        match c {
            b'"' | b'\\' => out.push(c as char),
            b'\n' => out.push('n'),
            _ => {
                out.push_str("u00");
                out.push(HEX[c as usize >> 4] as char);
                out.push(HEX[c as usize & 15] as char);
            }
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}
