import { create, fromJson, toJson, type JsonObject } from '@bufbuild/protobuf';
import { DecisionsSchema, SettingsSchema, TestSchema, type Settings, type Test } from '~/gen/proto/script/v1/script_pb';
import { bytesOf, textOf } from '~/ui/bytes';
import { equal, isObject, type Json } from './tree';

/** Tree is settings as a document that people can read and compare. */
export type Tree = { [name: string]: Json };

/** sections are the parts of settings, in the order in which people look at them. */
export const sections: { name: string; title: string }[] = [
  { name: 'trigger', title: 'Trigger' },
  { name: 'config', title: 'Config' },
  { name: 'limits', title: 'Limits' },
  { name: 'tests', title: 'Tests' },
  { name: 'rollout', title: 'Rollout' },
  { name: 'onError', title: 'If the script fails' },
  { name: 'decisions', title: 'Decision log' },
  { name: 'wasm', title: 'WebAssembly' },
  { name: 'rego', title: 'Rego' },
  { name: 'library', title: 'Library' },
  { name: 'personal', title: 'Personal version' },
  { name: 'artifact', title: 'Artifact' },
  { name: 'historyLimit', title: 'Versions that are kept' },
  { name: 'engine', title: 'Engine' },
  { name: 'entrypoint', title: 'Function that is called' },
];

/** treeOf leaves out empty parts, so that a default equals a missing part. */
export function treeOf(settings: Settings | undefined): Tree {
  if (!settings) {
    return {};
  }
  const { config, tests, decisions } = settings;
  const plain = create(SettingsSchema, { ...settings, config: new Uint8Array(), tests: [], libraries: [], decisions: undefined });
  const tree = toJson(SettingsSchema, plain) as Tree;
  for (const name of Object.keys(tree)) {
    if (isObject(tree[name]) && Object.keys(tree[name]).length === 0) {
      delete tree[name];
    }
  }
  if (decisions) {
    // An empty one is something else than none: it records nothing, whatever the tenant's settings say.
    tree.decisions = toJson(DecisionsSchema, decisions) as Json;
  }
  const configured = documentOf(config);
  if (configured !== undefined && !equal(configured, {})) {
    tree.config = configured;
  }
  if (tests.length > 0) {
    tree.tests = testsOf(tests);
  }
  return tree;
}

/** settingsOf is the inverse of treeOf. Unchanged parts keep their bytes from before. */
export function settingsOf(tree: Tree, ...before: (Settings | undefined)[]): Settings {
  const { config, tests, engine: _, entrypoint: __, ...rest } = tree;
  const settings = fromJson(SettingsSchema, rest as JsonObject);
  const known = before.filter((s) => s !== undefined);
  settings.config = known.find((s) => equal(treeOf(s).config, config))?.config ?? jsonBytes(config);
  settings.tests = known.find((s) => equal(treeOf(s).tests, tests))?.tests ?? testsFrom(tests, known);
  return settings;
}

const jsonBytes = (v: Json | undefined): Uint8Array<ArrayBuffer> => (v === undefined ? new Uint8Array() : bytesOf(typeof v === 'string' && v.startsWith(raw) ? v.slice(raw.length) : JSON.stringify(v)));

/** raw begins the text of a document that JavaScript would change, because it rounds long numbers. */
const raw = 'as it is: ';

/** documentOf reads JSON; undefined for none. */
export function documentOf(bytes: Uint8Array): Json | undefined {
  if (bytes.length === 0) {
    return undefined;
  }
  const text = textOf(bytes);
  try {
    const numbers = text.replace(/"(?:[^"\\]|\\.)*"/g, '');
    return /[\d.]{16}|[eE]/.test(numbers.replace(/true|false|null/g, '')) ? raw + text : (JSON.parse(text) as Json);
  } catch {
    return raw + text;
  }
}

/** testsOf returns the tests by their names, so that tests of two people merge. */
function testsOf(tests: Test[]): Json {
  const named = tests.map((t): [string, Json] => [t.name, testOf(t)]);
  return new Set(tests.map((t) => t.name)).size === tests.length ? Object.fromEntries(named) : named;
}

function testOf(t: Test): Json {
  const request = documentOf(t.request);
  const expect = documentOf(t.expect);
  return {
    ...(request !== undefined && { request }),
    ...(expect !== undefined && { expect }),
    ...(t.error && { error: t.error }),
  };
}

function testsFrom(tests: Json | undefined, before: Settings[]): Test[] {
  const named = isObject(tests) ? Object.entries(tests) : ((tests ?? []) as [string, Json][]);
  return named.map(([name, t]) => before.flatMap((s) => s.tests).find((b) => b.name === name && equal(testOf(b), t)) ?? testFrom(name, t));
}

function testFrom(name: string, t: Json): Test {
  const { request, expect, error } = isObject(t) ? t : {};
  return create(TestSchema, { name, request: jsonBytes(request), expect: jsonBytes(expect), error: typeof error === 'string' ? error : '' });
}
