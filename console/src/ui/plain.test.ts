import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plain, plainLines } from './plain';

test('what has an effect of its own becomes visible', () => {
  assert.equal(plain('\u001b[31mred\u0007'), '␛[31mred␇');
  assert.equal(plain('a\u202eb\u2066c\u200bd\ufeff'), 'a\\u202eb\\u2066c\\u200bd\\ufeff');
  assert.equal(plain('a\nb\tc\u007f\u0085'), 'a␊b␉c␡\\u0085');
  assert.equal(plainLines('a\nb\tc\rd\u001b'), 'a\nb\tc␍d␛');
  assert.equal(plain('grüße 漢字 🙂 <b>&amp;'), 'grüße 漢字 🙂 <b>&amp;');
});
