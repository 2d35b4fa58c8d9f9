import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentOf, pretty } from './content';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test('laying JSON out changes no number, text or order', () => {
  assert.equal(
    pretty('{"b":12345678901234567890.10,"a":[1,{},[]],"s":"x{},:\\"[y\\\\"}'),
    '{\n  "b": 12345678901234567890.10,\n  "a": [\n    1,\n    {},\n    []\n  ],\n  "s": "x{},:\\"[y\\\\"\n}',
  );
  for (const json of ['3', '[]', '""', 'null', ' { "a" : [ true , false ] } ']) {
    assert.deepEqual(JSON.parse(pretty(json)), JSON.parse(json));
    assert.equal(pretty(pretty(json)), pretty(json));
  }
});

test('the time grows as the size does', () => {
  const json = `[${'{"a":[[]]},'.repeat(90_000)}1]`;
  assert.equal(JSON.parse(pretty(json)).length, 90_001);
});

test('bytes that are no text are shown as such', () => {
  assert.equal(contentOf(bytes('{"a":1}')).kind, 'json');
  assert.equal(contentOf(bytes('motd')).kind, 'text');
  assert.equal(contentOf(new Uint8Array([0xff, 0xfe])).kind, 'binary');
  const binary = contentOf(new Uint8Array([0, 1, 65]));
  assert.ok(binary.kind === 'binary' && binary.head.startsWith('000000  00 01 41') && binary.head.endsWith('..A'));
});
