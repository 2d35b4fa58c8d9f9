/** Characters that are invisible, or change how the text around them looks. */
const unseen = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/**
 * plain shows untrusted text on one line. Control characters, such as terminal escapes, and marks that change the direction of
 * text become visible and have no effect.
 */
export const plain = (text: string): string => text.replace(unseen, picture);

/** plainLines is plain, but for the ends of lines and tabs. */
export const plainLines = (text: string): string => text.replace(unseen, (c) => (c === '\n' || c === '\t' ? c : picture(c)));

function picture(c: string): string {
  const code = c.charCodeAt(0);
  if (code === 0x7f) {
    return '\u2421';
  }
  // Unicode has a picture for each control character, in the same order.
  return code < 0x20 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, '0')}`;
}
