// The content security policy allows no inline scripts and styles. This moves the scripts that Qwik writes into pages to
// files, and removes its style, which is about view transitions that the console does not have.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const out = new URL('../dist/app/', import.meta.url).pathname;
const scripts = join(out, 'assets');
mkdirSync(scripts, { recursive: true });

for (const name of readdirSync(out, { recursive: true }).filter((name) => name.endsWith('.html'))) {
  const page = readFileSync(join(out, name), 'utf8');
  const moved = page.replace(/<script((?:\s[^>]*)?)>([\s\S]*?)<\/script>/g, (all, attributes, code) => {
    const type = /\stype="([^"]*)"/.exec(attributes)?.[1] ?? '';
    if (!code.trim() || (type && type !== 'module' && type !== 'text/javascript')) {
      return all;
    }
    const file = `script-${createHash('sha256').update(code).digest('hex').slice(0, 12)}.js`;
    writeFileSync(join(scripts, file), code);
    return `<script${attributes} src="/assets/${file}"></script>`;
  });
  writeFileSync(join(out, name), moved.replace(/<style[^>]*>[\s\S]*?<\/style>/g, ''));
}
// A page's data names the page's address. It was built without a query, so a navigation would lose the query: an empty address is
// the one that the person goes to.
for (const name of readdirSync(out, { recursive: true }).filter((name) => name.endsWith('q-data.json'))) {
  const data = JSON.parse(readFileSync(join(out, name), 'utf8'));
  const { href } = data._objs[Number.parseInt(data._entry, 36)];
  data._objs[Number.parseInt(href, 36)] = '';
  writeFileSync(join(out, name), JSON.stringify(data));
}
for (const unused of ['sitemap.xml', 'q-manifest.json', 'service-worker.js', 'qwik-prefetch-service-worker.js']) {
  rmSync(join(out, unused), { force: true });
}
