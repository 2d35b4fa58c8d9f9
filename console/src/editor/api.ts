/** Entry is something that a script can name. */
export interface Entry {
  name: string;
  kind: 'function' | 'table' | 'field' | 'word';
  /** Its parameters or its type. */
  detail: string;
  doc: string;
  /** The class that it is of, such as Request. */
  type: string;
}

/** Api is what scripts in Lua can call, and the fields of what they get and return. */
export interface Api {
  globals: Entry[];
  /** By the name of the global table, such as json. */
  members: Map<string, Entry[]>;
  /** Fields by the name of the class, such as Decision. */
  classes: Map<string, Entry[]>;
}

interface Pending {
  doc: string[];
  params: string[];
  returns: string[];
  className: string;
}

const nothing = (): Pending => ({ doc: [], params: [], returns: [], className: '' });

/** parseApi reads definitions for the Lua language server, as docs/api/scriptorium.lua has them. */
export function parseApi(text: string): Api {
  const api: Api = { globals: [], members: new Map(), classes: new Map() };
  let above = nothing();
  for (const line of text.split('\n')) {
    if (line.startsWith('---')) {
      annotation(line.slice(3), above, api);
      continue;
    }
    define(line, above, api);
    above = nothing();
  }
  return api;
}

function annotation(text: string, above: Pending, api: Api): void {
  const [, tag = '', rest = ''] = /^@(\w+)\s*(.*)$/.exec(text) ?? [];
  switch (tag) {
    case '':
      above.doc.push(text.trim());
      break;
    case 'class':
      above.className = rest.trim();
      break;
    case 'field':
      field(rest, above.className, api);
      break;
    case 'param':
      above.params.push(rest.split(/\s/, 1)[0]!);
      break;
    case 'return':
      above.returns.push(rest);
      break;
  }
}

function field(text: string, of: string, api: Api): void {
  const [, name = '', rest = ''] = /^(\w+\??)\s+(.*)$/.exec(text) ?? [];
  const [type, doc] = splitType(rest);
  const entry: Entry = { name: name.replace('?', ''), kind: 'field', detail: type, doc, type: type.replace(/\[\]$/, '') };
  api.classes.set(of, [...(api.classes.get(of) ?? []), entry]);
}

/** splitType divides a type from the words after it. A type has spaces only in its brackets. */
function splitType(text: string): [string, string] {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if ('<({['.includes(c)) {
      depth++;
    } else if ('>)}]'.includes(c)) {
      depth--;
    } else if (c === ' ' && depth === 0) {
      return [text.slice(0, i), text.slice(i + 1)];
    }
  }
  return [text, ''];
}

function define(line: string, above: Pending, api: Api): void {
  const doc = above.doc.join(' ');
  const [, path = '', params = ''] = /^function ([\w.]+)\(([^)]*)\)/.exec(line) ?? [];
  if (path) {
    const returns = above.returns.length ? ` → ${above.returns.map((r) => splitType(r)[0]).join(', ')}` : '';
    add(api, path, { kind: 'function', detail: `(${params})${returns}`, doc, type: '' });
    return;
  }
  const [, name = '', value = ''] = /^([\w.]+) = (.*)$/.exec(line) ?? [];
  if (name) {
    const table = value.startsWith('{');
    add(api, name, { kind: table ? 'table' : 'field', detail: table ? '' : value, doc, type: above.className });
  }
}

function add(api: Api, path: string, entry: Omit<Entry, 'name'>): void {
  const [first = '', second] = path.split('.');
  if (second === undefined) {
    api.globals.push({ ...entry, name: first });
    return;
  }
  api.members.set(first, [...(api.members.get(first) ?? []), { ...entry, name: second }]);
}
