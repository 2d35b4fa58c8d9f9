import { create } from '@bufbuild/protobuf';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AuditEntrySchema } from '~/gen/proto/script/v1/script_pb';
import { cell, csvHead, csvLine, recordOf } from './record';

test('no text of a stranger is a formula in a spreadsheet', () => {
  for (const begin of ['=', '+', '-', '@', '\t', '\r', '\n', ' =', '\t=', '\n\n+', '\u00a0-', '\u0000=', '\uff1d', '\uff20', '\ufeff=']) {
    const text = cell(`${begin}cmd|' /C calc'!A0`);
    assert.match(text, /^"'/, JSON.stringify(begin));
  }
  for (const harmless of ['', 'acme/route', '1 = 1', 'a@b', "it's"]) {
    assert.equal(cell(harmless), `"${harmless}"`);
  }
  assert.equal(cell('a "b", c\nd'), '"a ""b"", c\nd"');
  assert.equal(cell(7), '7');
  assert.equal(cell(true), 'true');
});

test('a line has a cell for each column, whatever is in it', () => {
  const entry = create(AuditEntrySchema, { revision: 7n, tenant: 'acme', name: 'route', change: 'publish', version: 3n, author: '=1+1', identity: 'ann, "the" admin', note: 'two\nlines', forced: true });
  const columns = csvHead.trim().split(',');
  const cells = csvLine(entry).trimEnd().match(/"(?:[^"]|"")*"|[^,]+/g) ?? [];
  assert.equal(cells.length, columns.length);
  assert.equal(cells[columns.indexOf('author')], `"'=1+1"`);
  assert.equal(cells[columns.indexOf('script')], '"acme/route"');
  assert.equal(recordOf(entry).author, '=1+1');
});
