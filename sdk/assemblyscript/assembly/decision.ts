import { Json, quote } from "./json";

/** A cookie for the client. What is not set has the default of Scriptorium: path /, secure, HTTP only, same site lax. */
export class Cookie {
  path: string = "";
  domain: string = "";
  /** Seconds; 0 deletes the cookie, -1 is none. */
  maxAge: i32 = -1;
  secure: bool = true;
  httpOnly: bool = true;
  sameSite: string = "";

  constructor(public name: string, public value: string) {}

  toJSON(): string {
    const w = new Writer();
    w.raw("name", quote(this.name));
    w.text("value", this.value);
    w.text("path", this.path);
    w.text("domain", this.domain);
    if (this.maxAge >= 0) w.raw("max_age", this.maxAge.toString());
    if (!this.secure) w.raw("secure", "false");
    if (!this.httpOnly) w.raw("http_only", "false");
    w.text("same_site", this.sameSite);
    return w.end();
  }
}

/** What a gateway does with a request. Its methods change it and return it, so that calls can follow one another. */
export class Decision {
  private denied: bool = false;
  private code: i32 = 0;
  private body: string = "";
  private location: string = "";
  private request: Headers = new Headers();
  private response: Headers = new Headers();
  private cookies: string[] = [];
  private varies: string[] = [];
  private limit: string = "";
  private to: string = "";
  private newPath: string = "";
  private newQuery: string | null = null;
  private names: string[] = [];
  private values: string[] = [];

  /** Sends the request on. Without changes, it goes on as it is. */
  static allow(): Decision {
    return new Decision();
  }

  /** Has the gateway answer in the upstream's place. */
  static deny(status: i32, body: string = ""): Decision {
    const d = new Decision();
    d.denied = true;
    d.code = status;
    d.body = body;
    return d;
  }

  /** Sends the client elsewhere, with the status 302. */
  static redirect(location: string): Decision {
    const d = new Decision();
    d.location = location;
    return d;
  }

  /** Sets the status of the gateway's answer: of a denial, or of a redirect. */
  status(status: i32): Decision {
    this.code = status;
    return this;
  }

  /** Says where the request goes, by a name that the gateway knows. */
  upstream(name: string): Decision {
    this.to = name;
    return this;
  }

  /** Replaces the path of the request. */
  path(path: string): Decision {
    this.newPath = path;
    return this;
  }

  /** Replaces the query of the request. */
  query(query: string): Decision {
    this.newQuery = query;
    return this;
  }

  /** Replaces a header of the request to the upstream. */
  setHeader(name: string, value: string): Decision {
    this.request.sets.put(name, value);
    return this;
  }

  /** Adds a value to a header of the request to the upstream. */
  appendHeader(name: string, value: string): Decision {
    this.request.appends.add(name, value);
    return this;
  }

  /** Removes a header of the request to the upstream. */
  removeHeader(name: string): Decision {
    this.request.removes.push(name);
    return this;
  }

  /** Replaces a header of the response to the client. */
  setResponseHeader(name: string, value: string): Decision {
    this.response.sets.put(name, value);
    return this;
  }

  /** Adds a value to a header of the response to the client. */
  appendResponseHeader(name: string, value: string): Decision {
    this.response.appends.add(name, value);
    return this;
  }

  /** Removes a header of the response to the client. */
  removeResponseHeader(name: string): Decision {
    this.response.removes.push(name);
    return this;
  }

  /** Sets a cookie of the client. */
  cookie(cookie: Cookie): Decision {
    this.cookies.push(cookie.toJSON());
    return this;
  }

  /** Names a request header that the answer depends on. */
  vary(header: string): Decision {
    this.varies.push(header);
    return this;
  }

  /** Adds the headers RateLimit-Limit, -Remaining and -Reset. With the status 429 the client gets Retry-After, too. */
  rateLimit(limit: i32, remaining: i32, resetSeconds: i32): Decision {
    const w = new Writer();
    w.raw("limit", limit.toString());
    w.raw("remaining", remaining.toString());
    w.raw("reset", resetSeconds.toString());
    this.limit = w.end();
    return this;
  }

  /** Adds a text for the gateway's own use. */
  metadata(name: string, text: string): Decision {
    return this.member(name, quote(text));
  }

  /** Adds a value for the gateway's own use. */
  metadataJSON(name: string, value: Json): Decision {
    return this.member(name, value.raw);
  }

  private member(name: string, value: string): Decision {
    const i = this.names.indexOf(name);
    if (i >= 0) {
      this.values[i] = value;
    } else {
      this.names.push(name);
      this.values.push(value);
    }
    return this;
  }

  /** The decision as gateways read it. */
  toJSON(): string {
    const w = new Writer();
    if (this.denied) w.raw("allow", "false");
    if (this.code != 0) w.raw("status", this.code.toString());
    w.text("body", this.body);
    w.text("redirect", this.location);
    this.request.write(w, "headers");
    this.response.write(w, "response_headers");
    if (this.cookies.length > 0) w.raw("cookies", "[" + this.cookies.join(",") + "]");
    if (this.varies.length > 0) w.raw("vary", quoteAll(this.varies));
    if (this.limit.length > 0) w.raw("rate_limit", this.limit);
    w.text("upstream", this.to);
    w.text("path", this.newPath);
    if (this.newQuery !== null) w.raw("query", quote(this.newQuery!));
    if (this.names.length > 0) {
      const inner = new Writer();
      for (let i = 0; i < this.names.length; i++) inner.raw(this.names[i], this.values[i]);
      w.raw("metadata", inner.end());
    }
    return w.end();
  }
}

/** Values of headers. A decision may have each header once, whatever the case of its name. */
class Values {
  names: string[] = [];
  values: string[][] = [];

  private find(name: string): i32 {
    for (let i = 0; i < this.names.length; i++) {
      if (this.names[i].toLowerCase() == name.toLowerCase()) return i;
    }
    this.names.push(name);
    this.values.push([]);
    return this.names.length - 1;
  }

  put(name: string, value: string): void {
    this.values[this.find(name)] = [value];
  }

  add(name: string, value: string): void {
    this.values[this.find(name)].push(value);
  }

  write(w: Writer, change: string): void {
    if (this.names.length == 0) return;
    const inner = new Writer();
    for (let i = 0; i < this.names.length; i++) {
      const values = this.values[i];
      inner.raw(this.names[i], values.length == 1 ? quote(values[0]) : quoteAll(values));
    }
    w.raw(change, inner.end());
  }
}

/** Changes of headers. */
class Headers {
  sets: Values = new Values();
  appends: Values = new Values();
  removes: string[] = [];

  write(w: Writer, name: string): void {
    const inner = new Writer();
    this.sets.write(inner, "set");
    this.appends.write(inner, "append");
    if (this.removes.length > 0) inner.raw("remove", quoteAll(this.removes));
    if (!inner.empty) w.raw(name, inner.end());
  }
}

/** A JSON object that is being written. */
class Writer {
  private members: string[] = [];

  get empty(): bool {
    return this.members.length == 0;
  }

  raw(name: string, value: string): void {
    this.members.push(quote(name) + ":" + value);
  }

  /** Writes a text that is not empty. */
  text(name: string, text: string): void {
    if (text.length > 0) this.raw(name, quote(text));
  }

  end(): string {
    return "{" + this.members.join(",") + "}";
  }
}

function quoteAll(texts: string[]): string {
  const all: string[] = [];
  for (let i = 0; i < texts.length; i++) all.push(quote(texts[i]));
  return "[" + all.join(",") + "]";
}
