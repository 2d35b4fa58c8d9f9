import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pretty } from './json';

test('pretty keeps what JSON says', () => {
  assert.equal(pretty('{"a":[1,2],"b":{},"c":"x: {,}"}'), '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {},\n  "c": "x: {,}"\n}');
  // More digits than a number of JavaScript has, and a number that JavaScript writes in another way.
  assert.equal(pretty('{"n":12345678901234567890,"m":1.0}'), '{\n  "n": 12345678901234567890,\n  "m": 1.0\n}');
  assert.equal(pretty('{"a": '), '{"a": ');
});

test('pretty writes what JSON.stringify writes, and changes nothing the second time', () => {
  for (const value of [null, 1, 'a"b\\', [], {}, [[], {}], { a: [{ b: [null, true] }], 'c d': -1.5e3 }]) {
    const text = pretty(JSON.stringify(value));
    assert.equal(text, JSON.stringify(value, null, 2));
    assert.equal(pretty(text), text);
  }
});

test('the time grows as the size does', () => {
  const json = `[${'{"a":[[]]},'.repeat(90_000)}1]`;
  assert.equal(JSON.parse(pretty(json)).length, 90_001);
});
