import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LogLineSchema } from '~/gen/proto/event/v1/event_pb';
import { Buffer, mostLines } from './buffer';

const line = (at: number, message = `line ${at}`) => create(LogLineSchema, { time: timestampFromMs(at), tenant: 'acme', name: 'route', version: 1n, level: 'info', message });

test('lines that come twice are shown once, in the order of their time', () => {
  const b = new Buffer();
  b.add('n1', [line(3), line(5)]);
  b.merge([{ agent: 'n1', line: line(1) }, { agent: 'n1', line: line(3) }, { agent: 'n2', line: line(3) }]);
  assert.deepEqual(b.lines.map((l) => `${l.agent} ${l.line.message}`), ['n1 line 1', 'n1 line 3', 'n2 line 3', 'n1 line 5']);
  assert.equal(b.added, 4);
});

test('a buffer keeps the newest lines, and counts the others', () => {
  const b = new Buffer();
  for (let at = 0; at < mostLines + 700; at += 100) {
    b.add('n1', Array.from({ length: 100 }, (_, i) => line(at + i)));
  }
  assert.equal(b.lines.length, mostLines);
  assert.equal(b.dropped, 700);
  assert.equal(b.lines[0]?.line.message, 'line 700');
  b.add('n1', [line(1)]); // It was dropped, so nobody knows it any more.
  assert.equal(b.dropped, 701);
});
