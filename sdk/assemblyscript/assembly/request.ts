import { Json, hexDigit } from "./json";

/** An HTTP request, as a gateway describes it. A field that the gateway does not send is "". */
export class Request {
  constructor(
    /** The whole request, with params and whatever else a caller sends. */
    public json: Json,
  ) {}

  static at(address: usize, length: i32): Request {
    return new Request(Json.trusted(address, length));
  }

  private field(name: string): string {
    return this.json.get(name).text();
  }

  /** Such as GET. */
  get method(): string {
    return this.field("method");
  }

  /** Such as https. */
  get scheme(): string {
    return this.field("scheme");
  }

  get host(): string {
    return this.field("host");
  }

  /** Without the query, and clean: no // and no .. */
  get path(): string {
    return this.field("path");
  }

  /** The path as the client sent it, if path differs. */
  get rawPath(): string {
    return this.field("raw_path");
  }

  /** What follows the ?, unchanged. */
  get query(): string {
    return this.field("query");
  }

  /** The client's IP address. */
  get remoteAddr(): string {
    return this.field("remote_addr");
  }

  get body(): string {
    return this.field("body");
  }

  /** The subject of the client's certificate. */
  get clientCertificate(): string {
    return this.field("client_certificate");
  }

  /** The gateway's name for the route. */
  get route(): string {
    return this.field("route");
  }

  /** The tenant of the script. */
  get tenant(): string {
    return this.field("tenant");
  }

  /** A header, the first one if it came more than once, "" if there is none. The case of the name does not matter. */
  header(name: string): string {
    const values = this.headerValues(name);
    return values.length > 0 ? values[0] : "";
  }

  /** All values of a header. */
  headerValues(name: string): string[] {
    return this.json.get("headers").get(name.toLowerCase()).texts();
  }

  /** A cookie, the first one of that name, "" if there is none. */
  cookie(name: string): string {
    const headers = this.headerValues("cookie");
    for (let h = 0; h < headers.length; h++) {
      const pairs = headers[h].split(";");
      for (let i = 0; i < pairs.length; i++) {
        const equals = pairs[i].indexOf("=");
        if (equals < 0 || pairs[i].substring(0, equals).trim() != name) continue;
        let value = pairs[i].substring(equals + 1).trim();
        if (value.startsWith('"')) value = value.substring(1);
        return value.endsWith('"') ? value.substring(0, value.length - 1) : value;
      }
    }
    return "";
  }

  /** A parameter of the query, the first one of that name, "" if there is none. */
  queryParam(name: string): string {
    const pairs = this.query.split("&");
    for (let i = 0; i < pairs.length; i++) {
      if (pairs[i].length == 0) continue;
      const equals = pairs[i].indexOf("=");
      const n = equals < 0 ? pairs[i] : pairs[i].substring(0, equals);
      if (unescape(n) == name) return equals < 0 ? "" : unescape(pairs[i].substring(equals + 1));
    }
    return "";
  }
}

/** Decodes + and %20. What is no escape stays. */
function unescape(text: string): string {
  const bytes = Uint8Array.wrap(String.UTF8.encode(text));
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    let c = bytes[i];
    if (c == 0x2b) {
      c = 0x20;
    } else if (c == 0x25 && i + 2 < bytes.length && hexDigit(bytes[i + 1]) >= 0 && hexDigit(bytes[i + 2]) >= 0) {
      c = ((hexDigit(bytes[i + 1]) << 4) | hexDigit(bytes[i + 2])) as u8;
      i += 2;
    }
    bytes[length++] = c;
  }
  return String.UTF8.decodeUnsafe(bytes.dataStart, length);
}
