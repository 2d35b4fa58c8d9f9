import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesOf as bytes } from '~/ui/bytes';
import { contentOf } from './content';

test('bytes that are no text are shown as such', () => {
  assert.equal(contentOf(bytes('{"a":1}')).kind, 'json');
  assert.equal(contentOf(bytes('motd')).kind, 'text');
  assert.equal(contentOf(new Uint8Array([0xff, 0xfe])).kind, 'binary');
  const binary = contentOf(new Uint8Array([0, 1, 65]));
  assert.ok(binary.kind === 'binary' && binary.head.startsWith('000000  00 01 41') && binary.head.endsWith('..A'));
});
