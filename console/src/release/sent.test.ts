import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { PublishRequestSchema } from '~/gen/proto/registry/v1/registry_pb';
import type { Checked } from './check';
import { answered, sending, unansweredOf } from './sent';

const at = (revision: bigint) => ({ revision }) as Checked;

test('a publish without an answer is sent again as it was, until the draft changes', () => {
  const draft = create(PublishRequestSchema, { tenant: 'acme', name: 'route' });
  const first = sending(draft, at(3n));
  assert.equal(unansweredOf(draft), first);
  assert.deepEqual(sending(draft, at(4n)), first, 'the dialog was opened again, and the registry has a newer revision');
  assert.equal(unansweredOf({ ...draft, note: 'changed' }), undefined);
  assert.notEqual(sending({ ...draft }, at(4n)).requestId, first.requestId);
  answered(draft);
  assert.equal(unansweredOf(draft), undefined);
  const next = sending(draft, at(5n));
  assert.notEqual(next.requestId, first.requestId);
  assert.equal(next.checked.revision, 5n);
});
