import type { Completion, CompletionContext, CompletionResult, CompletionSource } from '@codemirror/autocomplete';
import definitions from '~docs/scriptorium.lua?raw';
import { parseApi, type Api, type Entry } from './api';
import { tableAt } from './table';
import { library, words } from './words';

/** Config is the value of spec.config, as far as it is JSON. */
export type Config = () => unknown;

const types: Record<Entry['kind'], string> = { function: 'function', table: 'namespace', field: 'property', word: 'keyword' };

const option = (e: Entry): Completion => ({ label: e.name, type: types[e.kind], detail: e.detail.slice(0, 60), info: e.doc || undefined });

/** luaCompletion completes the API of scripts, the keys of the config, and the fields of what a script returns. */
export function luaCompletion(config: Config): CompletionSource {
  const api = parseApi(definitions);
  const globals = [...api.globals, ...library.globals, ...words].map(option);
  return (context) => {
    const path = context.matchBefore(/[A-Za-z_][\w.]*\.\w*$/);
    if (path) {
      return members(path.text, context.pos, api, config, context);
    }
    const word = context.matchBefore(/[A-Za-z_]\w*$/);
    if (!word && !context.explicit) {
      return null;
    }
    const from = word?.from ?? context.pos;
    const fields = returned(context, from, api);
    const options = [...fields.map((e) => ({ ...option(e), boost: 10, apply: `${e.name} = ` })), ...globals];
    return { from, options, validFor: /^\w*$/ };
  };
}

function members(path: string, pos: number, api: Api, config: Config, context: CompletionContext): CompletionResult | null {
  const parts = path.split('.');
  const typed = parts.pop()!;
  const [root, ...rest] = parts;
  const result = (entries: Entry[]): CompletionResult | null =>
    entries.length ? { from: pos - typed.length, options: entries.map(option), validFor: /^\w*$/ } : null;
  if (root === 'config') {
    return result(keys(config(), rest));
  }
  const parameter = parameters(context)[root!];
  if (parameter) {
    return result(fieldsOf(api, parameter, rest));
  }
  return rest.length ? null : result(api.members.get(root!) ?? library.members.get(root!) ?? []);
}

/** parameters says which names are the request and the response in the function around the cursor. */
function parameters(context: CompletionContext): Record<string, string> {
  const before = context.state.sliceDoc(Math.max(0, context.pos - reach), context.pos);
  const found: Record<string, string> = { request: 'Request', response: 'Response' };
  for (const [, name, params] of before.matchAll(/function\s+(\w+)\s*\(([^)]*)\)/g)) {
    const [first, second] = params!.split(',').map((p) => p.trim());
    if (first && (name === 'handle' || name === 'on_response')) {
      found[first] = 'Request';
    }
    if (second && name === 'on_response') {
      found[second] = 'Response';
    }
  }
  return found;
}

/** reach is how much of the source before the cursor counts. */
const reach = 8000;

/** returned are the fields of the table that a gateway's function returns. */
function returned(context: CompletionContext, from: number, api: Api): Entry[] {
  const before = context.state.sliceDoc(Math.max(0, from - reach), from);
  const table = tableAt(before);
  return table ? fieldsOf(api, table.of === 'on_response' ? 'Outcome' : 'Decision', table.path) : [];
}

function fieldsOf(api: Api, type: string, path: string[]): Entry[] {
  let fields = api.classes.get(type) ?? [];
  for (const name of path) {
    if (name) {
      fields = api.classes.get(fields.find((f) => f.name === name)?.type ?? '') ?? [];
    }
  }
  return fields;
}

/** keys are the keys at path that Lua can name after a dot. */
function keys(value: unknown, path: string[]): Entry[] {
  let at: unknown = value;
  for (const name of path) {
    at = at && typeof at === 'object' ? (at as Record<string, unknown>)[name] : undefined;
  }
  if (!at || typeof at !== 'object' || Array.isArray(at)) {
    return [];
  }
  return Object.entries(at)
    .filter(([name]) => /^[A-Za-z_]\w*$/.test(name))
    .map(([name, v]) => ({ name, kind: 'field', detail: Array.isArray(v) ? 'list' : v === null ? 'null' : typeof v, doc: `config: ${JSON.stringify(v).slice(0, 200)}`, type: '' }));
}

/** regoCompletion completes the parts of a request, the config and keywords. */
export function regoCompletion(config: Config): CompletionSource {
  const api = parseApi(definitions);
  const request = api.classes.get('Request') ?? [];
  const data: Entry[] = ['config', 'values'].map((name) => ({ name, kind: 'table', detail: '', doc: name === 'config' ? 'The config of the script.' : "The tenant's values, by key.", type: '' }));
  const decision = (api.classes.get('Decision') ?? []).map((e) => ({ ...option(e), apply: `"${e.name}": ` }));
  const plain: Completion[] = ['input', 'data', 'package', 'import', 'default', 'if', 'else', 'contains', 'in', 'every', 'some', 'not', 'with', 'as', 'true', 'false', 'null', 'print'].map((label) => ({ label, type: 'keyword' }));
  return (context) => {
    const path = context.matchBefore(/[A-Za-z_][\w.]*\.\w*$/);
    if (path) {
      const parts = path.text.split('.');
      const typed = parts.pop()!;
      const [root, second, ...rest] = parts;
      const found = root === 'input' && parts.length === 1 ? request : root !== 'data' ? [] : second === undefined ? data : second === 'config' ? keys(config(), rest) : [];
      return found.length ? { from: context.pos - typed.length, options: found.map(option), validFor: /^\w*$/ } : null;
    }
    const word = context.matchBefore(/[A-Za-z_]\w*$/);
    if (!word && !context.explicit) {
      return null;
    }
    return { from: word?.from ?? context.pos, options: [...plain, ...decision], validFor: /^\w*$/ };
  };
}
