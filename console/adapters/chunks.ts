/** Which file of the build has the code of a folder. Folders of the same page stand together. */
const chunks: [path: RegExp, chunk: string][] = [
  [/\/node_modules\/(@codemirror|@lezer|codemirror|style-mod|w3c-keyname|crelt)\//, 'codemirror'],
  [/\/src\/editor\/(view|theme|complete|mark|rego)\.ts/, 'codemirror'],
  [/\/node_modules\/(@connectrpc|@bufbuild)\/|\/src\/(gen|api)\//, 'calls'],
  [/\/src\/(editor|manifest|try)\/|\/src\/routes\/script\/(index|new)/, 'editor'],
  [/\/src\/script\/name\.ts/, 'shell'],
  [/\/src\/(release|script)\//, 'script'],
  [/\/src\/routes\/script\/history\//, 'history'],
  [/\/src\/rollout\/|\/src\/routes\/script\/rollout\//, 'rollout'],
  [/\/src\/(live|ui|shell|root\.tsx|routes\/layout)/, 'shell'],
  [/\/src\/scripts\/|\/src\/routes\/index/, 'scripts'],
  [/\/src\/tenants\/(chooser|names)/, 'shell'],
  [/\/src\/(?:routes\/)?(access|audit|fleet|logs|signin|tenants|values)\//, '$1'],
];

/**
 * chunkOf has one file for each page and some for all pages. Qwik would make one of each handler: hundreds of requests, and small
 * files compress badly.
 */
export function chunkOf(id: string): string | undefined {
  for (const [path, chunk] of chunks) {
    const found = path.exec(id);
    if (found) {
      return chunk.replace('$1', found[1] ?? '');
    }
  }
  return undefined;
}
