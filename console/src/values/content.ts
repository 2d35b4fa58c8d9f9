/** Content is what a value holds, as people can read it. */
export type Content = { kind: 'json' | 'text'; text: string } | { kind: 'binary'; head: string };

const headBytes = 256;

/** contentOf takes bytes that are UTF-8 without NUL for text. */
export function contentOf(bytes: Uint8Array): Content {
  const text = textOf(bytes);
  if (text === undefined) {
    return { kind: 'binary', head: hexOf(bytes.subarray(0, headBytes)) };
  }
  return { kind: isJson(text) ? 'json' : 'text', text };
}

export function textOf(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) {
    return undefined;
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** pretty lays JSON out. It changes only the space between: numbers keep all their digits, and members their order. */
export function pretty(json: string): string {
  const out: string[] = [];
  let depth = 0;
  let last = '';
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const opened = last === '{' || last === '[';
    if (token === '}' || token === ']') {
      depth--;
      out.push(opened ? token : line() + token);
    } else if (token === ',') {
      out.push(token);
    } else if (token === ':') {
      out.push(': ');
    } else {
      out.push((opened || last === ',' ? line() : '') + token);
      depth += token === '{' || token === '[' ? 1 : 0;
    }
    last = token;
  }
  return out.join('');
}

/** hexOf has sixteen bytes a line, each line with its place. */
function hexOf(bytes: Uint8Array): string {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = Array.from(bytes.subarray(at, at + 16));
    const hex = row.map((b) => b.toString(16).padStart(2, '0')).join(' ');
    const text = row.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '.')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join('\n');
}
