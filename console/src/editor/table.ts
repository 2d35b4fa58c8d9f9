/** Table is the table constructor around the end of a text. */
interface Table {
  /** The function that it is in; empty outside of any. */
  of: string;
  /** The keys from the returned table on. An empty text is an item of a list. */
  path: string[];
}

const tokens = /--\[\[[\s\S]*?\]\]|--[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\[\[[\s\S]*?\]\]|[A-Za-z_]\w*|[^\s\w]/g;

interface Open {
  bracket: string;
  label: string;
}

/**
 * tableAt finds the returned table of Lua code in which the text ends, where a member can begin. It returns undefined elsewhere. It reads
 * tokens and not the grammar, because unfinished code is often not valid.
 */
export function tableAt(text: string): Table | undefined {
  const open: Open[] = [];
  let before = ['', '', ''];
  let of = '';
  for (const [token] of text.matchAll(tokens)) {
    if (token.startsWith('--')) {
      continue;
    }
    if (token === '{') {
      open.push({ bracket: '{', label: before[2] === '=' ? before[1]! : before[2] === 'return' ? 'return' : '' });
    } else if (token === '(' || token === '[') {
      open.push({ bracket: token, label: '' });
    } else if ('})]'.includes(token)) {
      open.pop();
    } else if (before[2] === 'function' && /^\w/.test(token)) {
      of = token;
    }
    before = [before[1]!, before[2]!, token];
  }
  const start = open.findLastIndex((o) => o.label === 'return');
  const inside = open.slice(start);
  if (start < 0 || inside.some((o) => o.bracket !== '{') || !/[{,;]/.test(before[2]!)) {
    return undefined;
  }
  return { of, path: inside.slice(1).map((o) => o.label) };
}
