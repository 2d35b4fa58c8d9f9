import { create, equals } from '@bufbuild/protobuf';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TenantSettingsSchema } from '~/gen/proto/script/v1/script_pb';
import { draftOf, faultOf, settingsOf } from './fields';
import { numberOf, written } from './quantity';

test('numbers come back as they were written', () => {
  for (const [kind, text] of [['bytes', '64Mi'], ['bytes', '1000'], ['bytes', '1536Ki'], ['cores', '500m'], ['cores', '2'], ['duration', '250ms'], ['duration', '2s'], ['count', '64'], ['count', '']] as const) {
    assert.equal(written(kind, numberOf(kind, text)!), text);
  }
  assert.equal(numberOf('bytes', '1.5Ki'), 1536);
  assert.equal(numberOf('cores', '1.5'), 1500);
  for (const [kind, text] of [['bytes', '64MB'], ['bytes', '-1'], ['cores', 'two'], ['duration', '2'], ['count', '1e3'], ['count', '1.5']] as const) {
    assert.equal(numberOf(kind, text), undefined, text);
  }
});

test('a form that nobody changes saves what was there', () => {
  const settings = create(TenantSettingsSchema, {
    isolation: 'process', audit: 'strict', concurrency: 7, cpu: 500, logBytes: 1000n, memoryBytes: 268435456n, valueBytes: 5n, scripts: 3n, sourceBytes: 4n, writes: 2n, writeBytes: 1n,
    limits: { instructions: 1000n, timeout: { seconds: 1n, nanos: 500_000_000 }, sourceBytes: 9n, stringBytes: 8n, resultBytes: 7n, concurrency: 6, logBytes: 5n, coroutines: true, wasmMemory: 65536n },
    decisions: { sample: 0.25, errors: true, mask: ['headers.authorization', 'body'], fields: ['error'] },
  });
  const draft = draftOf(settings);
  assert.equal(faultOf(draft), undefined);
  assert.ok(equals(TenantSettingsSchema, settingsOf(draft, settings), settings));
  const changed = settingsOf({ ...draft, memoryBytes: '', decisions: '', coroutines: '' }, settings);
  assert.equal(changed.memoryBytes, 0n);
  assert.equal(changed.decisions, undefined);
  assert.equal(changed.limits?.coroutines, false);
  assert.equal(settings.memoryBytes, 268435456n, 'what was there is not changed');
});

test('a field that cannot be read is named', () => {
  assert.equal(faultOf({ ...draftOf(undefined), cpu: 'half' })?.field.name, 'cpu');
});
