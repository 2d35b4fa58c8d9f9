import { diff, type Edit } from './diff';

/** Piece is a part of a merged text. */
export interface Piece {
  /** Who changed it: nobody, others, the person, both in the same way, or both differently. */
  kind: 'same' | 'theirs' | 'mine' | 'both' | 'conflict';
  base: string[];
  theirs: string[];
  mine: string[];
}

/** Choice is what a person takes of a conflict. */
export type Choice = 'theirs' | 'mine' | 'both';

/** merge combines two changes of the same text. Changes that overlap or touch are conflicts. */
export function merge(base: string[], theirs: string[], mine: string[]): Piece[] {
  const other = new Side(diff(base, theirs), theirs);
  const own = new Side(diff(base, mine), mine);
  const pieces: Piece[] = [];
  let at = 0;
  for (;;) {
    const from = Math.min(other.next(), own.next());
    const to = Math.min(from, base.length);
    if (to > at) {
      const lines = base.slice(at, to);
      pieces.push({ kind: 'same', base: lines, theirs: lines, mine: lines });
    }
    if (from === Infinity) {
      return pieces;
    }
    let end = from;
    for (let grown = true; grown; ) {
      grown = false;
      for (const side of [other, own]) {
        const reached = side.take(end);
        grown ||= reached > end || side.took;
        end = Math.max(end, reached);
      }
    }
    pieces.push(pieceOf(base.slice(from, end), other.lines(from, end), own.lines(from, end), other.changed, own.changed));
    other.pass();
    own.pass();
    at = end;
  }
}

function pieceOf(base: string[], theirs: string[], mine: string[], byThem: boolean, byMe: boolean): Piece {
  if (!byMe) {
    return { kind: 'theirs', base, theirs, mine };
  }
  if (!byThem) {
    return { kind: 'mine', base, theirs, mine };
  }
  const same = theirs.length === mine.length && theirs.every((line, i) => line === mine[i]);
  return { kind: same ? 'both' : 'conflict', base, theirs, mine };
}

/** Side walks through the edits of one of the two texts. */
class Side {
  changed = false;
  took = false;
  private at = 0;
  /** How many lines the text has more than the base, before the present piece and after the edits that it has. */
  private shiftBefore = 0;
  private shiftAfter = 0;

  constructor(
    private readonly edits: Edit[],
    private readonly text: string[],
  ) {}

  next(): number {
    return this.edits[this.at]?.aFrom ?? Infinity;
  }

  /** take adds the edits that begin at end or before to the present piece, and returns where it ends then. */
  take(end: number): number {
    this.took = false;
    for (let e = this.edits[this.at]; e && e.aFrom <= end; e = this.edits[++this.at]) {
      end = Math.max(end, e.aTo);
      this.shiftAfter = e.bTo - e.aTo;
      this.changed = this.took = true;
    }
    return end;
  }

  lines(from: number, end: number): string[] {
    return this.text.slice(from + this.shiftBefore, end + this.shiftAfter);
  }

  pass(): void {
    this.shiftBefore = this.shiftAfter;
    this.changed = false;
  }
}

/** result puts the pieces together; undefined while a conflict has no choice. The choices are by the number of the piece. */
export function result(pieces: Piece[], choices: Record<number, Choice>): string[] | undefined {
  const lines: string[] = [];
  for (const [i, p] of pieces.entries()) {
    const chosen = p.kind === 'conflict' ? choices[i] : p.kind === 'theirs' ? 'theirs' : 'mine';
    if (!chosen) {
      return undefined;
    }
    for (const line of chosen === 'both' ? [...p.theirs, ...p.mine] : p[chosen]) {
      lines.push(line);
    }
  }
  return lines;
}

/** twoWay merges texts without a known common origin: each difference is a conflict. */
export function twoWay(theirs: string[], mine: string[]): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  for (const e of [...diff(theirs, mine), { aFrom: theirs.length, aTo: theirs.length, bFrom: mine.length, bTo: mine.length }]) {
    if (e.aFrom > at) {
      const lines = theirs.slice(at, e.aFrom);
      pieces.push({ kind: 'same', base: lines, theirs: lines, mine: lines });
    }
    if (e.aTo > e.aFrom || e.bTo > e.bFrom) {
      pieces.push({ kind: 'conflict', base: [], theirs: theirs.slice(e.aFrom, e.aTo), mine: mine.slice(e.bFrom, e.bTo) });
    }
    at = e.aTo;
  }
  return pieces;
}
