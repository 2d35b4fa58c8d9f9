import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ErrorSchema } from '~/gen/proto/script/v1/script_pb';
import { failureOf, mayHaveHappened } from './failure';

const failed = (code: Code, kind?: string) =>
  failureOf(new ConnectError('it failed', code, undefined, kind === undefined ? [] : [{ desc: ErrorSchema, value: create(ErrorSchema, { kind }) }]));

test('the next try is the same request unless the registry refused the first', () => {
  for (const f of [failed(Code.Unavailable), failed(Code.Unavailable, 'UNAVAILABLE'), failed(Code.Unavailable, 'OVERLOADED'), failed(Code.DeadlineExceeded, 'TIMEOUT'), failed(Code.Internal, 'INTERNAL'), failed(Code.Unauthenticated, 'DENIED'), failureOf(new TypeError('Failed to fetch'))]) {
    assert.ok(mayHaveHappened(f), f.kind);
  }
  for (const kind of ['CONFLICT', 'INVALID', 'DENIED', 'SCRIPT', 'LIMIT', 'NOTFOUND']) {
    assert.ok(!mayHaveHappened(failed(Code.Aborted, kind)), kind);
  }
});
