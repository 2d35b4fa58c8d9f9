import type { Edit } from './diff';

/** Row is a line of a diff on the page. Line numbers begin at 1, and are missing in the text that has no such line. */
export interface Row {
  kind: 'same' | 'removed' | 'added' | 'gap';
  a?: number;
  b?: number;
  text: string;
}

const longestLine = 2000;

/** rowsOf returns the changed lines with some lines around them. A gap row counts the lines between. */
export function rowsOf(a: string[], b: string[], edits: Edit[], context = 3): Row[] {
  const rows: Row[] = [];
  let shown = 0; // of a, all that comes before
  for (const [i, e] of edits.entries()) {
    const from = Math.max(shown, e.aFrom - context);
    gap(rows, from - shown);
    same(rows, a, from, e.aFrom, e.bFrom - e.aFrom);
    a.slice(e.aFrom, e.aTo).forEach((text, n) => rows.push({ kind: 'removed', a: e.aFrom + n + 1, text: clip(text) }));
    b.slice(e.bFrom, e.bTo).forEach((text, n) => rows.push({ kind: 'added', b: e.bFrom + n + 1, text: clip(text) }));
    const next = edits[i + 1]?.aFrom ?? a.length;
    shown = Math.min(next, e.aTo + context);
    same(rows, a, e.aTo, shown, e.bTo - e.aTo);
  }
  gap(rows, a.length - shown);
  return rows;
}

function same(rows: Row[], a: string[], from: number, to: number, shift: number): void {
  for (let i = from; i < to; i++) {
    rows.push({ kind: 'same', a: i + 1, b: i + shift + 1, text: clip(a[i]!) });
  }
}

function gap(rows: Row[], lines: number): void {
  if (lines > 0) {
    rows.push({ kind: 'gap', text: lines === 1 ? '1 line that is the same' : `${lines.toLocaleString()} lines that are the same` });
  }
}

export const clip = (text: string): string =>
  text.length > longestLine ? `${text.slice(0, longestLine)}… and ${(text.length - longestLine).toLocaleString()} characters more` : text;

/** Pair is a row of a diff side by side. */
interface Pair {
  left: Row | undefined;
  right: Row | undefined;
}

/** pairsOf puts removed and added lines beside each other. */
export function pairsOf(rows: Row[]): Pair[] {
  const pairs: Pair[] = [];
  for (let i = 0; i < rows.length; ) {
    const row = rows[i]!;
    if (row.kind === 'same' || row.kind === 'gap') {
      pairs.push({ left: row, right: row });
      i++;
      continue;
    }
    const removed = run(rows, i, 'removed');
    const added = run(rows, i + removed.length, 'added');
    for (let n = 0; n < Math.max(removed.length, added.length); n++) {
      pairs.push({ left: removed[n], right: added[n] });
    }
    i += removed.length + added.length;
  }
  return pairs;
}

function run(rows: Row[], from: number, kind: Row['kind']): Row[] {
  let to = from;
  while (rows[to]?.kind === kind) {
    to++;
  }
  return rows.slice(from, to);
}
