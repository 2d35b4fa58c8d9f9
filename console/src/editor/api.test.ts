import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseApi } from './api';

// The test runs in the folder console.
const api = parseApi(readFileSync('../docs/api/scriptorium.lua', 'utf8'));

test('parseApi finds each function of the definitions', () => {
  const text = readFileSync('../docs/api/scriptorium.lua', 'utf8');
  for (const [, path = ''] of text.matchAll(/^function ([\w.]+)\(/gm)) {
    const [first = '', second] = path.split('.');
    const found = second ? api.members.get(first)?.find((e) => e.name === second) : api.globals.find((e) => e.name === first);
    assert.ok(found?.doc, `${path} has no entry, or no words`);
  }
});

test('parseApi knows the fields of classes, and which class each is of', () => {
  const decision = api.classes.get('Decision') ?? [];
  const headers = decision.find((f) => f.name === 'headers');
  assert.equal(headers?.type, 'HeaderChanges');
  assert.equal(decision.find((f) => f.name === 'cookies')?.type, 'Cookie');
  const remaining = api.classes.get('Request')?.find((f) => f.name === 'query_params');
  assert.equal(remaining?.detail, 'table<string, string|string[]>');
  assert.ok(remaining?.doc.startsWith('by name'));
});
