import assert from 'node:assert/strict';
import { test } from 'node:test';
import { merge, result, twoWay } from './merge';
import { differences, equal, merged, pathKey, print, type Json } from './tree';

const kinds = (base: string, theirs: string, mine: string) => merge([...base], [...theirs], [...mine]).map((p) => p.kind);
const text = (base: string, theirs: string, mine: string) => result(merge([...base], [...theirs], [...mine]), {})?.join('');

test('changes of different lines are merged', () => {
  assert.equal(text('abcdefg', 'aXcdefg', 'abcdefY'), 'aXcdefY');
  assert.equal(text('abcdefg', 'acdefg', 'abcdefgh'), 'acdefgh');
  assert.equal(text('abc', 'abc', 'aXc'), 'aXc');
  assert.equal(text('abc', 'aXc', 'abc'), 'aXc');
  assert.equal(text('abc', 'aXc', 'aXc'), 'aXc');
  assert.equal(text('', '', 'new'), 'new');
});

test('changes that overlap or touch are conflicts', () => {
  assert.deepEqual(kinds('abc', 'aXc', 'aYc'), ['same', 'conflict', 'same']);
  assert.deepEqual(kinds('abcd', 'aXcd', 'abYd'), ['same', 'conflict', 'same']);
  assert.deepEqual(kinds('ab', 'aXb', 'aYb'), ['same', 'conflict', 'same']);
  assert.deepEqual(kinds('', 'X', 'Y'), ['conflict']);
  assert.deepEqual(kinds('abcdefgh', 'aXXXefgh', 'abcYeZgh'), ['same', 'conflict', 'same', 'mine', 'same']);
});

test('a choice makes the text', () => {
  const pieces = merge([...'abc'], [...'aXc'], [...'aYc']);
  assert.equal(result(pieces, {}), undefined);
  assert.equal(result(pieces, { 1: 'theirs' })?.join(''), 'aXc');
  assert.equal(result(pieces, { 1: 'mine' })?.join(''), 'aYc');
  assert.equal(result(pieces, { 1: 'both' })?.join(''), 'aXYc');
});

test('random changes: each piece is of its texts, and they add up', () => {
  const seed = Date.now() % 1e9;
  let x = seed | 1;
  const next = (below: number) => {
    x = (Math.imul(x, 1103515245) + 12345) >>> 0;
    return (x >>> 8) % below;
  };
  const change = (lines: string[]) => lines.flatMap((line) => (next(6) === 0 ? [] : next(6) === 0 ? [line, String(next(9))] : [line]));
  for (let i = 0; i < 500; i++) {
    const base = Array.from({ length: next(20) }, () => String(next(9)));
    const [theirs, mine] = [change(base), change(base)];
    const pieces = merge(base, theirs, mine);
    for (const [name, want] of Object.entries({ base, theirs, mine })) {
      assert.deepEqual(pieces.flatMap((p) => p[name as 'base']), want, `seed ${seed}, text ${i}, ${name}`);
    }
  }
});

test('documents are merged member by member', () => {
  const base: Json = { pool: 'shop', max: 3, hosts: ['a'], old: true };
  const theirs: Json = { pool: 'cart', max: 3, hosts: ['a', 'b'], old: true };
  const mine: Json = { pool: 'shop', max: 4, hosts: ['a', 'c'], constructor: 1 };
  const found = differences(base, theirs, mine);
  assert.deepEqual(found.map((d) => [d.path.join('/'), d.kind]), [['constructor', 'mine'], ['hosts', 'conflict'], ['max', 'mine'], ['old', 'mine'], ['pool', 'theirs']]);
  assert.ok(equal(merged(mine, found, {}), { pool: 'cart', max: 4, hosts: ['a', 'c'], constructor: 1 }));
  assert.ok(equal(merged(mine, found, { [pathKey(['hosts'])]: 'theirs' }), { pool: 'cart', max: 4, hosts: ['a', 'b'], constructor: 1 }));
});

test('a document that others removed', () => {
  const found = differences({ a: 1 }, undefined, { a: 1 });
  assert.deepEqual(found.map((d) => d.kind), ['theirs']);
  assert.equal(merged({ a: 1 }, found, {}), undefined);
  assert.ok(equal(merged({ a: { b: 1, __proto__x: 2 } }, [{ path: ['a', '__proto__'], kind: 'theirs', base: undefined, theirs: 1, mine: undefined }], {}), JSON.parse('{"a":{"b":1,"__proto__x":2,"__proto__":1}}')));
});

test('print has a line for each value', () => {
  assert.deepEqual(print({ b: { c: [1, { d: 'x' }] }, a: [], 'e f': null }), ['a: []', 'b:', '  c:', '    - 1', '    -', '      d: "x"', '"e f": null']);
});

test('without an origin, each difference is a conflict', () => {
  const pieces = twoWay([...'abcd'], [...'aXcdY']);
  assert.deepEqual(pieces.map((p) => p.kind), ['same', 'conflict', 'same', 'conflict']);
  assert.equal(result(pieces, { 1: 'theirs', 3: 'mine' })?.join(''), 'abcdY');
});
