// The program holds the files compressed: most browsers take them so, and the program is smaller.
import { readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const out = new URL('../dist/app/', import.meta.url).pathname;

for (const name of readdirSync(out, { recursive: true })) {
  const file = join(out, name);
  if (statSync(file).isFile()) {
    writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
    rmSync(file);
  }
}
