import { hex as hexDigits, plainTextOf } from '~/ui/bytes';
import { isJSON } from '~/ui/json';

/** Content is the content of a value for people. */
export type Content = { kind: 'json' | 'text'; text: string } | { kind: 'binary'; head: string };

const headBytes = 256;

/** contentOf treats UTF-8 without NUL as text. */
export function contentOf(bytes: Uint8Array): Content {
  const text = plainTextOf(bytes);
  if (text === undefined) {
    return { kind: 'binary', head: hexOf(bytes.subarray(0, headBytes)) };
  }
  return { kind: isJSON(text) ? 'json' : 'text', text };
}

/** hexOf prints sixteen bytes a line, each line with its offset. */
function hexOf(bytes: Uint8Array): string {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = Array.from(bytes.subarray(at, at + 16));
    const hex = row.map((b) => hexDigits(Uint8Array.of(b))).join(' ');
    const text = row.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '.')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join('\n');
}
