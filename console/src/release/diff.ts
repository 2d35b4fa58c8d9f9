/** Edit replaces the lines from aFrom to aTo of one text by those from bFrom to bTo of the other. The ends are exclusive. */
export interface Edit {
  aFrom: number;
  aTo: number;
  bFrom: number;
  bTo: number;
}

/** linesOf splits a text, so that join('\n') makes the same text again. */
export const linesOf = (text: string): string[] => text.split('\n');

/** Bounds of the search for the fewest edits. A source has up to 1 MiB, and somebody waits for the diff. */
const mostEdits = 1500;
const mostSteps = 6_000_000;

/**
 * diff returns what turns a into b, in order. It finds the fewest edits by Myers' O(ND) algorithm. Where that would take too
 * long, it looks for lines that are once in both, and searches between them; what is left is one edit.
 */
export function diff(a: string[], b: string[]): Edit[] {
  const ids = new Map<string, number>();
  const search = new Search(number(a, ids), number(b, ids));
  search.range(0, a.length, 0, b.length);
  return search.edits;
}

function number(lines: string[], ids: Map<string, number>): Int32Array {
  return Int32Array.from(lines, (line) => {
    const id = ids.get(line) ?? ids.size;
    ids.set(line, id);
    return id;
  });
}

class Search {
  readonly edits: Edit[] = [];
  private steps = 0;

  constructor(
    private readonly a: Int32Array,
    private readonly b: Int32Array,
  ) {}

  range(aFrom: number, aTo: number, bFrom: number, bTo: number): void {
    const { a, b } = this;
    while (aFrom < aTo && bFrom < bTo && a[aFrom] === b[bFrom]) {
      aFrom++;
      bFrom++;
    }
    while (aFrom < aTo && bFrom < bTo && a[aTo - 1] === b[bTo - 1]) {
      aTo--;
      bTo--;
    }
    if (aFrom === aTo || bFrom === bTo) {
      this.add(aFrom, aTo, bFrom, bTo);
      return;
    }
    const same = this.shortest(aFrom, aTo, bFrom, bTo);
    if (same) {
      this.between(same, aFrom, aTo, bFrom, bTo, false);
      return;
    }
    const anchors = this.anchors(aFrom, aTo, bFrom, bTo);
    this.between(anchors, aFrom, aTo, bFrom, bTo, anchors.length > 0);
  }

  /** between handles the ranges between pairs of equal lines. */
  private between(pairs: [number, number][], aFrom: number, aTo: number, bFrom: number, bTo: number, deeper: boolean): void {
    for (const [i, j] of [...pairs, [aTo, bTo] as [number, number]]) {
      if (deeper) {
        this.range(aFrom, i, bFrom, j);
      } else {
        this.add(aFrom, i, bFrom, j);
      }
      aFrom = i + 1;
      bFrom = j + 1;
    }
  }

  private add(aFrom: number, aTo: number, bFrom: number, bTo: number): void {
    if (aFrom < aTo || bFrom < bTo) {
      this.edits.push({ aFrom, aTo, bFrom, bTo });
    }
  }

  /** shortest returns the pairs of equal lines with the fewest edits; undefined if the search takes too long. */
  private shortest(aFrom: number, aTo: number, bFrom: number, bTo: number): [number, number][] | undefined {
    const n = aTo - aFrom;
    const m = bTo - bFrom;
    const most = Math.min(n + m, mostEdits);
    // The furthest reach on each diagonal x - y, from -most - 1 on, with a copy for each number of edits.
    const reach = new Int32Array(2 * most + 3);
    const middle = most + 1;
    const trace: Int32Array[] = [];
    for (let d = 0; d <= most; d++) {
      trace.push(reach.slice(middle - d - 1, middle + d + 2));
      for (let k = -d; k <= d; k += 2) {
        const down = k === -d || (k !== d && reach[middle + k - 1]! < reach[middle + k + 1]!);
        let x = down ? reach[middle + k + 1]! : reach[middle + k - 1]! + 1;
        while (x < n && x - k < m && this.a[aFrom + x] === this.b[bFrom + x - k]) {
          x++;
          this.steps++;
        }
        reach[middle + k] = x;
        if (x >= n && x - k >= m) {
          return pairsOf(trace, n, m).map(([i, j]) => [aFrom + i, bFrom + j]);
        }
      }
      this.steps += d;
      if (this.steps > mostSteps) {
        return undefined;
      }
    }
    return undefined;
  }

  /** anchors returns pairs of equal lines that are once in either range, as many as are in the same order in both. */
  private anchors(aFrom: number, aTo: number, bFrom: number, bTo: number): [number, number][] {
    const inB = once(this.b, bFrom, bTo);
    const pairs: [number, number][] = [];
    for (const [line, i] of once(this.a, aFrom, aTo)) {
      const j = inB.get(line);
      if (i >= 0 && j !== undefined && j >= 0) {
        pairs.push([i, j]);
      }
    }
    return increasing(pairs.sort((p, q) => p[0] - q[0]));
  }
}

/** pairsOf goes the path back from its end. */
function pairsOf(trace: Int32Array[], n: number, m: number): [number, number][] {
  const pairs: [number, number][] = [];
  let x = n;
  let y = m;
  for (let d = trace.length - 1; d >= 0; d--) {
    const reach = trace[d]!;
    const middle = d + 1;
    const k = x - y;
    const down = k === -d || (k !== d && reach[middle + k - 1]! < reach[middle + k + 1]!);
    const fromK = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : reach[middle + fromK]!;
    const fromY = d === 0 ? 0 : fromX - fromK;
    while (x > fromX && y > fromY) {
      pairs.push([--x, --y]);
    }
    x = fromX;
    y = fromY;
  }
  return pairs.reverse();
}

/** once returns where the lines are that are once in the range; -1 for others. */
function once(lines: Int32Array, from: number, to: number): Map<number, number> {
  const at = new Map<number, number>();
  for (let i = from; i < to; i++) {
    at.set(lines[i]!, at.has(lines[i]!) ? -1 : i);
  }
  return at;
}

/** increasing returns the most pairs whose second numbers grow, by patience sorting. */
function increasing(pairs: [number, number][]): [number, number][] {
  const tops: number[] = [];
  const before: number[] = [];
  pairs.forEach(([, j], i) => {
    let low = 0;
    let high = tops.length;
    while (low < high) {
      const at = (low + high) >> 1;
      if (pairs[tops[at]!]![1] < j) {
        low = at + 1;
      } else {
        high = at;
      }
    }
    before.push(low > 0 ? tops[low - 1]! : -1);
    tops[low] = i;
  });
  const found: [number, number][] = [];
  for (let i = tops.at(-1) ?? -1; i >= 0; i = before[i]!) {
    found.push(pairs[i]!);
  }
  return found.reverse();
}
