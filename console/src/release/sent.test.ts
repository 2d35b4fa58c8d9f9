import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { PublishRequestSchema } from '~/gen/proto/registry/v1/registry_pb';
import type { Checked } from './check';
import { answered, sending, unansweredOf } from './sent';

const at = (revision: bigint) => ({ revision }) as Checked;

const asked = { note: 'why', liftHold: false, force: false };

test('a publish without an answer is sent again as it was, until the draft changes', () => {
  const draft = create(PublishRequestSchema, { tenant: 'acme', name: 'route' });
  const first = sending(draft, at(3n), asked);
  assert.deepEqual(unansweredOf(draft), { checked: at(3n), options: first });
  assert.deepEqual(sending(draft, at(4n), asked), first, 'the dialog was opened again, and the registry has a newer revision');
  assert.equal(sending(draft, at(4n), { ...asked, note: 'another' }).requestId, first.requestId);
  assert.equal(unansweredOf({ ...draft, note: 'changed' }), undefined);
  assert.notEqual(sending({ ...draft }, at(4n), asked).requestId, first.requestId);
  answered(draft);
  assert.equal(unansweredOf(draft), undefined);
  const next = sending(draft, at(5n), asked);
  assert.notEqual(next.requestId, first.requestId);
  assert.equal(next.revision, 5n);
});
