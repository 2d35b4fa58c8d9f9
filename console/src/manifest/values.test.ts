import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatDuration, parseDuration, parsePairs, parseSigned, parseSmall, parseWhole } from './values';

test('durations come back as they were written', () => {
  for (const text of ['250ms', '1h30m', '10s', '1s500ms', '7us', '168h', '1ns']) {
    const { value, problem } = parseDuration(text);
    assert.equal(problem, undefined, text);
    assert.equal(formatDuration(value), text);
  }
  assert.equal(formatDuration(parseDuration('1.5s').value), '1s500ms');
  assert.equal(formatDuration(parseDuration('').value), '');
  for (const text of ['10', 'ten', '10 parsecs', '-1s', '1s2']) {
    assert.ok(parseDuration(text).problem, text);
  }
});

test('numbers and pairs say what is wrong with them', () => {
  assert.equal(parseWhole('1,000,000').value, 1_000_000n);
  assert.ok(parseWhole('1.5').problem);
  // A message of the protocol has no place for a negative limit.
  assert.ok(parseWhole('-1').problem);
  assert.ok(parseSmall('-1').problem);
  assert.equal(parseSigned(' -10').value, -10);
  assert.ok(parseSigned('1-0').problem);
  assert.ok(parseSigned('-').problem);
  assert.deepEqual(parsePairs('zone: a, tier=gold\n').value, [['zone', 'a'], ['tier', 'gold']]);
  assert.ok(parsePairs('zone').problem);
});
