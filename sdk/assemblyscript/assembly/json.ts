// JSON as UTF-8 in memory, which is read when somebody asks for it. The runtime "stub" frees nothing, so the
// memory stays as it is until the call ends.

/** How deep a value may be. Arguments, configs and results are at most 32 levels deep. */
const maxDepth: i32 = 64;

/** A member of an object. */
export class Member {
  constructor(public name: string, public value: Json) {}
}

/** A JSON value. A value that is missing reads as null. */
export class Json {
  constructor(private from: usize, private end: usize) {}

  /** The JSON value that a text is, null if it is none. */
  static parse(text: string): Json | null {
    const bytes = String.UTF8.encode(text);
    const end = changetype<usize>(bytes) + bytes.byteLength;
    const from = blanks(changetype<usize>(bytes), end);
    const to = skip(from, end, maxDepth);
    return to == 0 || blanks(to, end) != end ? null : new Json(from, to);
  }

  /** The value that a text in memory is, which the agent has checked. */
  static trusted(address: usize, length: i32): Json {
    let end = address + length;
    const from = blanks(address, end);
    while (end > from && load<u8>(end - 1) <= 0x20) end--;
    return new Json(from, end);
  }

  static missing(): Json {
    return new Json(0, 0);
  }

  /** The value as it is written. */
  get raw(): string {
    return this.exists ? String.UTF8.decodeUnsafe(this.from, this.end - this.from) : "null";
  }

  /** Whether there is a value, which may be null. */
  get exists(): bool {
    return this.end > this.from;
  }

  /** Whether the value is null or missing. */
  get isNull(): bool {
    return !this.exists || this.first == 0x6e;
  }

  get isArray(): bool {
    return this.first == 0x5b;
  }

  get isObject(): bool {
    return this.first == 0x7b;
  }

  get isText(): bool {
    return this.first == 0x22;
  }

  private get first(): u8 {
    return this.exists ? load<u8>(this.from) : 0;
  }

  /** A string, and other for all other values. */
  text(other: string = ""): string {
    return this.isText ? unquote(this.from + 1, this.end - 1) : other;
  }

  /** A number, and other for all other values. */
  number(other: f64 = 0): f64 {
    const c = this.first;
    return c == 0x2d || (c >= 0x30 && c <= 0x39) ? parseFloat(this.raw) : other;
  }

  /** Whether the value is true. */
  get bool(): bool {
    return this.first == 0x74;
  }

  /** A member of an object. If a name comes twice, the last one counts, as in other engines. */
  get(name: string): Json {
    if (!this.isObject) return Json.missing();
    const key = String.UTF8.encode(name);
    const end = this.end;
    let found: usize = 0;
    let at = blanks(this.from + 1, end);
    if (at == end - 1) return Json.missing();
    while (true) {
      const quote = endOfString(at, end);
      const same = isName(at + 1, quote - 1, key, name);
      at = blanks(blanks(quote, end) + 1, end); // the colon
      if (same) found = at;
      at = blanks(endOf(at, end), end);
      if (byte(at, end) != 0x2c) break;
      at = blanks(at + 1, end);
    }
    return found ? new Json(found, endOf(found, end)) : Json.missing();
  }

  /** The members of an object in their order, and none of all other values. */
  members(): Member[] {
    return this.isObject ? this.entries() : [];
  }

  /** The elements of an array, and none of all other values. */
  items(): Json[] {
    const all: Json[] = [];
    if (this.isArray) {
      const entries = this.entries();
      for (let i = 0; i < entries.length; i++) all.push(entries[i].value);
    }
    return all;
  }

  /** The strings of an array, or a string as the only one: headers are either. */
  texts(): string[] {
    if (this.isText) return [this.text()];
    const all: string[] = [];
    const items = this.items();
    for (let i = 0; i < items.length; i++) all.push(items[i].text());
    return all;
  }

  private entries(): Member[] {
    const all: Member[] = [];
    const end = this.end;
    let at = blanks(this.from + 1, end);
    if (at == end - 1) return all;
    while (true) {
      let name = "";
      if (this.isObject) {
        const quote = endOfString(at, end);
        name = unquote(at + 1, quote - 1);
        at = blanks(blanks(quote, end) + 1, end); // the colon
      }
      const to = endOf(at, end);
      all.push(new Member(name, new Json(at, to)));
      at = blanks(to, end);
      if (at >= end || load<u8>(at) != 0x2c) return all;
      at = blanks(at + 1, end);
    }
  }
}

/** Whether a text in JSON, without its quotes, is a name, whose UTF-8 is key. */
function isName(from: usize, end: usize, key: ArrayBuffer, name: string): bool {
  for (let at = from; at < end; at++) {
    if (load<u8>(at) == 0x5c) return unquote(from, end) == name;
  }
  return end - from == key.byteLength && memory.compare(from, changetype<usize>(key), key.byteLength) == 0;
}

/** Where a value ends. Values are checked when they are made, so these two functions look for the end alone. */
function endOf(at: usize, end: usize): usize {
  const first = byte(at, end);
  if (first == 0x22) return endOfString(at, end);
  if (first != 0x7b && first != 0x5b) {
    for (; at < end; at++) {
      const c = load<u8>(at);
      if (c <= 0x20 || c == 0x2c || c == 0x7d || c == 0x5d) break;
    }
    return at;
  }
  for (let depth = 0; at < end; at++) {
    const c = load<u8>(at);
    if (c == 0x22) at = endOfString(at, end) - 1;
    else if (c == 0x7b || c == 0x5b) depth++;
    else if ((c == 0x7d || c == 0x5d) && --depth == 0) return at + 1;
  }
  return end;
}

function endOfString(at: usize, end: usize): usize {
  for (at++; at < end; at++) {
    const c = load<u8>(at);
    if (c == 0x22) return at + 1;
    if (c == 0x5c) at++;
  }
  return end;
}

function byte(at: usize, end: usize): u8 {
  return at < end ? load<u8>(at) : 0;
}

function blanks(at: usize, end: usize): usize {
  for (; at < end; at++) {
    const c = load<u8>(at);
    if (c != 0x20 && c != 0x0a && c != 0x09 && c != 0x0d) break;
  }
  return at;
}

/** Where the value ends that begins at an address, 0 if there is none. */
function skip(at: usize, end: usize, depth: i32): usize {
  if (depth == 0) return 0;
  switch (byte(at, end)) {
    case 0x7b:
      return skipList(at, end, depth, 0x7d);
    case 0x5b:
      return skipList(at, end, depth, 0x5d);
    case 0x22:
      return skipString(at, end);
    case 0x74:
      return skipWord(at, end, 0x65757274, 4); // true
    case 0x66:
      return skipWord(at + 1, end, 0x65736c61, 4); // false
    case 0x6e:
      return skipWord(at, end, 0x6c6c756e, 4); // null
  }
  return skipNumber(at, end);
}

function skipList(at: usize, end: usize, depth: i32, close: u8): usize {
  at = blanks(at + 1, end);
  if (byte(at, end) == close) return at + 1;
  while (true) {
    if (close == 0x7d) {
      at = skipString(at, end);
      if (at == 0) return 0;
      at = blanks(at, end);
      if (byte(at, end) != 0x3a) return 0;
      at = blanks(at + 1, end);
    }
    at = skip(at, end, depth - 1);
    if (at == 0) return 0;
    at = blanks(at, end);
    const c = byte(at, end);
    if (c == close) return at + 1;
    if (c != 0x2c) return 0;
    at = blanks(at + 1, end);
  }
}

function skipString(at: usize, end: usize): usize {
  if (byte(at, end) != 0x22) return 0;
  for (at++; at < end; at++) {
    const c = load<u8>(at);
    if (c == 0x22) return at + 1;
    if (c < 0x20) return 0;
    if (c != 0x5c) continue;
    switch (byte(++at, end)) {
      case 0x75: // u
        if (hex4(at + 1, end) < 0) return 0;
      case 0x22:
      case 0x5c:
      case 0x2f:
      case 0x62:
      case 0x66:
      case 0x6e:
      case 0x72:
      case 0x74:
        break;
      default:
        return 0;
    }
  }
  return 0;
}

/** word is the bytes of a word, the last one first. */
function skipWord(at: usize, end: usize, word: u32, length: i32): usize {
  return at + length <= end && load<u32>(at) == word ? at + length : 0;
}

function skipNumber(at: usize, end: usize): usize {
  if (byte(at, end) == 0x2d) at++;
  const from = at;
  at = digits(at, end);
  if (at == 0 || (at > from + 1 && load<u8>(from) == 0x30)) return 0;
  if (byte(at, end) == 0x2e) {
    at = digits(at + 1, end);
    if (at == 0) return 0;
  }
  if ((byte(at, end) | 0x20) == 0x65) {
    at++;
    const sign = byte(at, end);
    if (sign == 0x2b || sign == 0x2d) at++;
    at = digits(at, end);
  }
  return at;
}

function digits(from: usize, end: usize): usize {
  let at = from;
  while (byte(at, end) >= 0x30 && byte(at, end) <= 0x39) at++;
  return at == from ? 0 : at;
}

function hex4(at: usize, end: usize): i32 {
  let n = 0;
  for (let i = 0; i < 4; i++) {
    const digit = hexDigit(byte(at + i, end));
    if (digit < 0) return -1;
    n = (n << 4) | digit;
  }
  return n;
}

export function hexDigit(c: i32): i32 {
  if (c >= 0x30 && c <= 0x39) return c - 0x30;
  c |= 0x20;
  return c >= 0x61 && c <= 0x66 ? c - 0x61 + 10 : -1;
}

/** Decodes what is between the quotes of a string. */
function unquote(from: usize, end: usize): string {
  let out = "";
  let plain = from;
  for (let at = from; at < end; at++) {
    if (load<u8>(at) != 0x5c) continue;
    out += String.UTF8.decodeUnsafe(plain, at - plain);
    let c: i32 = load<u8>(++at);
    switch (c) {
      case 0x62:
        c = 0x08;
        break;
      case 0x66:
        c = 0x0c;
        break;
      case 0x6e:
        c = 0x0a;
        break;
      case 0x72:
        c = 0x0d;
        break;
      case 0x74:
        c = 0x09;
        break;
      case 0x75:
        c = hex4(at + 1, end);
        at += 4;
        break;
    }
    out += String.fromCharCode(c);
    plain = at + 1;
  }
  return out + String.UTF8.decodeUnsafe(plain, end - plain);
}

/** A text as a JSON string. */
export function quote(text: string): string {
  let out = '"';
  let plain = 0;
  for (let i = 0; i < text.length; i++) {
    const c: i32 = load<u16>(changetype<usize>(text) + ((<usize>i) << 1));
    if (c > 0x5c && (c & 0xf800) != 0xd800) continue;
    let escape: string;
    if (c == 0x22 || c == 0x5c) escape = "\\" + String.fromCharCode(c);
    else if (c == 0x0a) escape = "\\n";
    else if (c < 0x20) escape = "\\u00" + (c < 0x10 ? "0" : "1") + (c & 15).toString(16);
    else if (isLoneSurrogate(text, i)) escape = "\uFFFD"; // which is not valid in UTF-8
    else continue;
    out += text.substring(plain, i) + escape;
    plain = i + 1;
  }
  return out + text.substring(plain) + '"';
}

function isLoneSurrogate(text: string, i: i32): bool {
  const kind = text.charCodeAt(i) & 0xfc00;
  if (kind == 0xd800) return i + 1 >= text.length || (text.charCodeAt(i + 1) & 0xfc00) != 0xdc00;
  return kind == 0xdc00 && (i == 0 || (text.charCodeAt(i - 1) & 0xfc00) != 0xd800);
}
