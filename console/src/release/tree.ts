/** Json is a value of a document; undefined where it has none. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Difference is a part of a document that one or both of two people changed. */
export interface Difference {
  /** The names on the way to it. */
  path: string[];
  kind: 'theirs' | 'mine' | 'both' | 'conflict';
  base: Json | undefined;
  theirs: Json | undefined;
  mine: Json | undefined;
}

/**
 * differences compares two changes of the same document, member by member. Lists are one value each: nobody can tell which
 * elements of two lists are meant to be the same.
 */
export function differences(base: Json | undefined, theirs: Json | undefined, mine: Json | undefined, path: string[] = []): Difference[] {
  if (equal(theirs, mine)) {
    return equal(base, mine) ? [] : [{ path, kind: 'both', base, theirs, mine }];
  }
  if (isObject(theirs) && isObject(mine) && (base === undefined || isObject(base))) {
    const names = new Set([...Object.keys(base ?? {}), ...Object.keys(theirs), ...Object.keys(mine)]);
    return [...names].sort().flatMap((name) => differences(member(base, name), member(theirs, name), member(mine, name), [...path, name]));
  }
  const kind = equal(base, mine) ? 'theirs' : equal(base, theirs) ? 'mine' : 'conflict';
  return [{ path, kind, base, theirs, mine }];
}

/** merged returns mine with all that only others changed, and with what was chosen of conflicts. */
export function merged(mine: Json | undefined, found: Difference[], choices: Record<string, 'theirs' | 'mine'>): Json | undefined {
  let document = mine;
  for (const d of found) {
    if (d.kind === 'theirs' || (d.kind === 'conflict' && choices[pathKey(d.path)] === 'theirs')) {
      document = put(document, d.path, d.theirs);
    }
  }
  return document;
}

/** pathKey is a path as a text that no other path has. */
export const pathKey = (path: string[]): string => JSON.stringify(path);

/** put returns the document with another value at the path. It changes neither document nor value. */
function put(document: Json | undefined, path: string[], value: Json | undefined): Json | undefined {
  const [name, ...rest] = path;
  if (name === undefined) {
    return value;
  }
  const members = new Map(isObject(document) ? Object.entries(document) : []);
  const inner = put(members.get(name), rest, value);
  if (inner === undefined) {
    members.delete(name);
  } else {
    members.set(name, inner);
  }
  return Object.fromEntries(members);
}

export const isObject = (v: Json | undefined): v is { [key: string]: Json } => typeof v === 'object' && v !== null && !Array.isArray(v);

/** member does not look into prototypes: a tenant may call a member "constructor". */
const member = (v: Json | undefined, name: string): Json | undefined => (isObject(v) && Object.hasOwn(v, name) ? v[name] : undefined);

/** equal compares values, whatever the order of members. */
export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) {
    return true;
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((v, i) => equal(v, b[i]));
  }
  if (!isObject(a) || !isObject(b)) {
    return false;
  }
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]));
}

/** print writes a document like YAML, one line for each value, for a comparison by lines. */
export function print(v: Json | undefined, indent = ''): string[] {
  if (Array.isArray(v) && v.length > 0) {
    return v.flatMap((element) => nested(`${indent}-`, element, indent));
  }
  if (isObject(v) && Object.keys(v).length > 0) {
    return Object.keys(v).sort().flatMap((name) => nested(`${indent}${label(name)}:`, v[name], indent));
  }
  return v === undefined ? [] : [`${indent}${JSON.stringify(v)}`];
}

function nested(head: string, v: Json | undefined, indent: string): string[] {
  const deep = (Array.isArray(v) && v.length > 0) || (isObject(v) && Object.keys(v).length > 0);
  return deep ? [head, ...print(v, `${indent}  `)] : [`${head} ${JSON.stringify(v)}`];
}

/** label quotes a name that is not a plain word. */
const label = (name: string): string => (/^[\w./$-]+$/.test(name) ? name : JSON.stringify(name));
