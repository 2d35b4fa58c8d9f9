import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownPage } from './session';

test('a sign-in leads to pages of the console alone', () => {
  const origin = 'https://console.example';
  for (const page of ['/', '/script/?name=acme/route', '/audit/?q=//x']) {
    assert.equal(ownPage(page, origin), page);
  }
  assert.equal(ownPage('https://console.example/fleet/', origin), '/fleet/');
  for (const page of [
    '//evil.example', '/.//evil.example', '/..//evil.example', '/%2e//evil.example', '/./\\evil.example', '/a/..//evil.example', '/\\evil.example', '/\t/evil.example',
    'https://evil.example/', 'https://console.example//evil.example', 'javascript:alert(1)', 'data:text/html,x', 'http://[', 'https://console.example.evil.example/', 'blob:https://console.example/x',
  ]) {
    const to = ownPage(page, origin);
    assert.equal(new URL(to, origin).origin, origin, `${page} leads to ${to}`);
  }
});
