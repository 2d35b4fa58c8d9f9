import { durationFromMs, type Duration } from '@bufbuild/protobuf/wkt';
import { seconds } from '~/ui/number';

/** A kind of field: how its number is written, and read. */
export type Kind = 'count' | 'bytes' | 'cores' | 'duration';

const units: [string, number][] = [['Gi', 2 ** 30], ['Mi', 2 ** 20], ['Ki', 2 ** 10]];

/** written is a number for a field, such as 64Mi. 0 means the default, and is an empty field. */
export function written(kind: Kind, n: number): string {
  if (n === 0) {
    return '';
  }
  if (kind === 'cores') {
    return n % 1000 === 0 ? String(n / 1000) : `${n}m`;
  }
  if (kind === 'duration') {
    return n % 1000 === 0 ? `${n / 1000}s` : `${n}ms`;
  }
  const [unit, size] = (kind === 'bytes' && units.find(([, size]) => n % size === 0)) || ['', 1];
  return `${n / size}${unit}`;
}

const patterns: Record<Kind, RegExp> = {
  count: /^\d{1,15}$/,
  bytes: /^(\d{1,15}(?:\.\d+)?)(Ki|Mi|Gi)?$/,
  cores: /^(\d{1,6}(?:\.\d{1,3})?)(m)?$/,
  duration: /^(\d{1,9}(?:\.\d+)?)(ms|s)$/,
};

/** wants describes what a person can write. */
export const wants: Record<Kind, string> = { count: 'a number', bytes: 'bytes, such as 64Mi', cores: 'cores, such as 500m or 2', duration: 'a time, such as 500ms or 2s' };

/** numberOf reads bytes, thousandths of a core, milliseconds or a count. It returns undefined for anything else. */
export function numberOf(kind: Kind, text: string): number | undefined {
  if (text === '') {
    return 0;
  }
  const match = patterns[kind].exec(text);
  if (!match) {
    return undefined;
  }
  const [, n = text, unit] = match;
  const factor = kind === 'bytes' ? (units.find(([u]) => u === unit)?.[1] ?? 1) : (kind === 'cores' && unit !== 'm') || unit === 's' ? 1000 : 1;
  return Math.round(Number(n) * factor);
}

export const millis = (d: Duration | undefined): number => Math.round((seconds(d) ?? 0) * 1000);

export const durationOf = (ms: number): Duration | undefined => (ms > 0 ? durationFromMs(ms) : undefined);
