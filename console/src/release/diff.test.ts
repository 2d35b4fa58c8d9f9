import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diff, linesOf, type Edit } from './diff';

/** random is a generator whose numbers follow from its seed: xorshift. */
function random(seed: number) {
  let x = seed | 1;
  return (below: number) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % below;
  };
}

function apply(a: string[], b: string[], edits: Edit[]): string[] {
  const lines: string[] = [];
  let at = 0;
  for (const e of edits) {
    assert.ok(e.aFrom >= at && e.aTo >= e.aFrom && e.bTo >= e.bFrom, 'the edits are in order');
    a.slice(at, e.aFrom).concat(b.slice(e.bFrom, e.bTo)).forEach((line) => lines.push(line));
    at = e.aTo;
  }
  return lines.concat(a.slice(at));
}

const cost = (edits: Edit[]) => edits.reduce((n, e) => n + e.aTo - e.aFrom + e.bTo - e.bFrom, 0);

/** fewest is the length of the shortest edit, by the table of the longest common subsequence. */
function fewest(a: string[], b: string[]): number {
  let row = new Array<number>(b.length + 1).fill(0);
  for (const line of a) {
    const next = [0];
    b.forEach((other, j) => next.push(line === other ? row[j]! + 1 : Math.max(row[j + 1]!, next[j]!)));
    row = next;
  }
  return a.length + b.length - 2 * row[b.length]!;
}

test('random texts: the edits make the second text of the first, and are the fewest', () => {
  const seed = Date.now() % 1e9;
  const next = random(seed);
  for (let i = 0; i < 400; i++) {
    const a = Array.from({ length: next(30) }, () => String(next(6)));
    const b = Array.from({ length: next(30) }, () => String(next(6)));
    const edits = diff(a, b);
    assert.deepEqual(apply(a, b, edits), b, `seed ${seed}, text ${i}`);
    assert.equal(cost(edits), fewest(a, b), `seed ${seed}, text ${i}`);
  }
});

test('a text of 1 MiB whose lines all differ ends, and is right', () => {
  const a = Array.from({ length: 100_000 }, (_, i) => `old ${i}`);
  const b = Array.from({ length: 100_000 }, (_, i) => `new ${i}`);
  assert.deepEqual(apply(a, b, diff(a, b)), b);
});

test('a large text with many changes: the lines that are once in both stay', () => {
  const a = Array.from({ length: 60_000 }, (_, i) => (i % 5 === 0 ? `kept ${i}` : `old ${i}`));
  const b = Array.from({ length: 60_000 }, (_, i) => (i % 5 === 0 ? `kept ${i}` : `new ${i}`));
  const edits = diff(a, b);
  assert.deepEqual(apply(a, b, edits), b);
  assert.equal(edits.length, 12_000);
});

test('a hostile text: two lines that repeat without an order', () => {
  const next = random(7);
  const a = Array.from({ length: 200_000 }, () => String(next(2)));
  const b = Array.from({ length: 200_000 }, () => String(next(2)));
  assert.deepEqual(apply(a, b, diff(a, b)), b);
});

test('lines join to the same text', () => {
  for (const text of ['', '\n', 'a', 'a\n', 'a\r\nb', '\n\na']) {
    assert.equal(linesOf(text).join('\n'), text);
  }
});
