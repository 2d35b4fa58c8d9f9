import { textOf } from '~/ui/bytes';
import type { RecentCall } from '~/gen/proto/registry/v1/registry_pb';
import { milliseconds } from '~/ui/time';
import { pretty } from '~/ui/json';
import type { Test } from '~/gen/proto/script/v1/script_pb';

/** Saved is a request that a person can choose. */
export interface Saved {
  id: string;
  group: 'Tests' | 'Tried' | 'Recorded';
  title: string;
  json: string;
}

/** start is the first request of the panel if the script has no tests. */
export const start = pretty('{"method":"GET","scheme":"https","host":"shop.example","path":"/","query":"","headers":{}}');

const most = 20;

/** remember keeps the last requests that the person ran, the newest first. */
export function remember(tried: string[], json: string): string[] {
  return [json, ...tried.filter((t) => t !== json)].slice(0, most);
}

export function savedOf(tests: Test[], tried: string[], recorded: Saved[] = []): Saved[] {
  return [
    ...tests.map((t): Saved => ({ id: `test:${t.name}`, group: 'Tests', title: t.name, json: pretty(textOf(t.request) || '{}') })),
    ...tried.map((json, i): Saved => ({ id: `tried:${i}`, group: 'Tried', title: titleOf(json), json })),
    ...recorded,
  ];
}

/** recordedOf reads the requests of recorded calls. The masks of the decision log hold for them. */
export function recordedOf(calls: RecentCall[]): Saved[] {
  return calls.flatMap((call, i): Saved[] => {
    const input = object(textOf(call.record))?.input;
    const json = input === undefined ? '' : JSON.stringify(input, null, 2);
    const at = new Date(milliseconds(call.time) ?? 0).toLocaleTimeString();
    return json ? [{ id: `recorded:${i}`, group: 'Recorded', title: `${at} ${titleOf(json)}`, json }] : [];
  });
}

/** Fields are the parts of a gateway's request that the form has. */
export interface Fields {
  method: string;
  host: string;
  path: string;
  query: string;
  headers: string;
  body: string;
}

/** fieldsOf reads a request for the form; undefined if the form cannot show it. */
export function fieldsOf(json: string): Fields | undefined {
  const value = object(json);
  if (!value) {
    return undefined;
  }
  const text = (name: string) => (typeof value[name] === 'string' ? (value[name] as string) : '');
  const headers = value.headers ?? {};
  if (typeof headers !== 'object' || Array.isArray(headers)) {
    return undefined;
  }
  return { method: text('method'), host: text('host'), path: text('path'), query: text('query'), body: text('body'), headers: lines(headers as Record<string, unknown>) };
}

/** withField changes one part and keeps the others. It removes an empty body. */
export function withField(json: string, name: keyof Fields, text: string): string {
  const value = { ...object(json) };
  if (name === 'headers') {
    value.headers = headersOf(text);
  } else if (name === 'body' && text === '') {
    delete value.body;
  } else {
    value[name] = text;
  }
  return JSON.stringify(value, null, 2);
}

function object(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return value && typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

const lines = (headers: Record<string, unknown>): string =>
  Object.entries(headers)
    .flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((v) => `${name}: ${String(v)}`))
    .join('\n');

/** headersOf makes a list of a header that comes more than once, as gateways do. */
function headersOf(text: string): Record<string, string | string[]> {
  const all = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const at = line.indexOf(':');
    const name = line.slice(0, at < 0 ? undefined : at).trim().toLowerCase();
    if (name) {
      all.set(name, [...(all.get(name) ?? []), at < 0 ? '' : line.slice(at + 1).trim()]);
    }
  }
  return Object.fromEntries([...all].map(([name, values]) => [name, values.length === 1 ? values[0]! : values]));
}

function titleOf(json: string): string {
  const value = object(json);
  const part = (name: string) => (typeof value?.[name] === 'string' ? (value[name] as string) : '');
  const title = [part('method'), part('host') + part('path')].filter(Boolean).join(' ') || json.replace(/\s+/g, ' ');
  return title.length > 60 ? `${title.slice(0, 60)}…` : title;
}
