import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tableAt } from './table';

test('tableAt finds the returned table that the text ends in', () => {
  const cases: [string, ReturnType<typeof tableAt>][] = [
    ['function handle(r)\n  return { ', { of: 'handle', path: [] }],
    ['function handle(r)\n  return { upstream = "a", ', { of: 'handle', path: [] }],
    ['function on_response(r, s)\n  return { response_headers = { ', { of: 'on_response', path: ['response_headers'] }],
    ['function handle(r) return { cookies = { { ', { of: 'handle', path: ['cookies', ''] }],
    ['function handle(r) return { cookies = { { name = "a" }, ', { of: 'handle', path: ['cookies'] }],
    ['-- return {\nlocal a = 1 ', undefined],
    ['return { upstream = ', undefined],
    ['return { a = f(', undefined],
    ['return { a = "{", ', { of: '', path: [] }],
    ['return {} ', undefined],
    ['local t = { ', undefined],
  ];
  for (const [text, want] of cases) {
    assert.deepEqual(tableAt(text), want, text);
  }
});
