import { create } from '@bufbuild/protobuf';
import { DurationSchema, type Duration } from '@bufbuild/protobuf/wkt';

/** Parsed is the value that a person typed into a field, or what is wrong with it. */
export type Parsed<T> = { value: T; problem?: undefined } | { value?: undefined; problem: string };

/** taken gives a parsed value to take, or returns the problem with it. */
export async function taken<T>({ value, problem }: Parsed<T>, take: (value: T) => unknown): Promise<string | undefined> {
  if (problem === undefined) {
    await take(value as T);
  }
  return problem;
}

const nanos: Record<string, bigint> = { ns: 1n, us: 1_000n, µs: 1_000n, ms: 1_000_000n, s: 1_000_000_000n, m: 60_000_000_000n, h: 3_600_000_000_000n };
const second = nanos.s!;

/** parseDuration reads durations as in manifests: 250ms, 1m30s. Empty text means no duration. */
export function parseDuration(text: string): Parsed<Duration | undefined> {
  const all = text.replace(/\s/g, '');
  if (all === '' || all === '0') {
    return { value: undefined };
  }
  if (!/^(?:\d+(?:\.\d{1,9})?(?:ns|us|µs|ms|s|m|h))+$/.test(all)) {
    return { problem: 'Write a number and a unit, such as 250ms, 10s or 1h30m.' };
  }
  let total = 0n;
  for (const [, whole = '', part = '', unit = ''] of all.matchAll(/(\d+)(?:\.(\d{1,9}))?(ns|us|µs|ms|s|m|h)/g)) {
    total += BigInt(whole) * nanos[unit]! + (BigInt(part.padEnd(9, '0')) * nanos[unit]!) / second;
  }
  return { value: create(DurationSchema, { seconds: total / second, nanos: Number(total % second) }) };
}

export function formatDuration(d: Duration | undefined): string {
  let rest = d ? d.seconds * second + BigInt(d.nanos) : 0n;
  let out = '';
  for (const unit of ['h', 'm', 's', 'ms', 'us', 'ns']) {
    const n = rest / nanos[unit]!;
    if (n > 0n) {
      out += `${n}${unit}`;
      rest %= nanos[unit]!;
    }
  }
  return out;
}

/** parseWhole reads a whole number that is not negative. Empty text is 0, which stands for the default. */
export function parseWhole(text: string): Parsed<bigint> {
  const digits = text.replace(/[\s,_]/g, '');
  if (digits === '') {
    return { value: 0n };
  }
  return /^\d{1,18}$/.test(digits) ? { value: BigInt(digits) } : { problem: 'Write a whole number that is not negative.' };
}

export function parseSmall(text: string): Parsed<number> {
  const { value, problem } = parseWhole(text);
  if (problem !== undefined) {
    return { problem };
  }
  return value < 2147483648n ? { value: Number(value) } : { problem: 'The number is too large.' };
}

/** parseSigned reads a number that can be negative, such as a priority. */
export function parseSigned(text: string): Parsed<number> {
  const [, minus, digits = ''] = /^\s*(-?)(.*)$/.exec(text) ?? [];
  const { value, problem } = parseSmall(digits || minus || '');
  return problem === undefined ? { value: minus ? -value || 0 : value } : { problem };
}

/** parseDecimal reads a number such as 0.5. Empty text means no number. */
export function parseDecimal(text: string): Parsed<number | undefined> {
  const t = text.replace('%', '').trim();
  if (t === '') {
    return { value: undefined };
  }
  const value = Number(t);
  return Number.isFinite(value) ? { value } : { problem: 'Write a number, such as 0.5.' };
}

export const formatWhole = (n: bigint | number): string => (n === 0n || n === 0 ? '' : String(n));

/** parsePairs reads lines such as "zone: a" or "zone=a". */
export function parsePairs(text: string): Parsed<[string, string][]> {
  const pairs: [string, string][] = [];
  for (const line of text.split(/[\n,]/).map((l) => l.trim())) {
    const at = line.search(/[:=]/);
    if (line === '') {
      continue;
    }
    if (at < 1) {
      return { problem: `Write a name and a value, such as zone: a. This is neither: ${line}` };
    }
    pairs.push([line.slice(0, at).trim(), line.slice(at + 1).trim()]);
  }
  return { value: pairs };
}

export const formatPairs = (pairs: [string, string][]): string => pairs.map(([name, value]) => `${name}: ${value}`).join(', ');
