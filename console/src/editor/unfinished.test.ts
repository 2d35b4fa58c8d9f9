import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shift } from './unfinished';

const text = (text: string) => ({ text, problem: 'no' });

test('the texts of tests move with their tests', () => {
  const all = { 'Test 1: Name': text('a'), 'Test 2: Request, in JSON': text('b'), 'Test 3: Name': text('c'), 'Step 2: Percent': text('d'), YAML: text('e') };
  const without = shift(all, 'Test', 1, -1);
  assert.deepEqual(without, { 'Test 1: Name': text('a'), 'Test 2: Name': text('c'), 'Step 2: Percent': text('d'), YAML: text('e') });
  assert.deepEqual(shift(without, 'Test', 1, 1), { 'Test 1: Name': text('a'), 'Test 3: Name': text('c'), 'Step 2: Percent': text('d'), YAML: text('e') });
});
