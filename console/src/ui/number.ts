import type { Duration } from '@bufbuild/protobuf/wkt';

/** seconds is a duration as a number. */
export const seconds = (d: Duration | undefined): number | undefined => d && Number(d.seconds) + d.nanos / 1e9;

/** duration shows a duration with two significant digits: 340 µs, 1.2 ms, 3 s, 5 min. */
export function duration(d: Duration | number | undefined): string {
  const s = typeof d === 'number' ? d : seconds(d);
  if (s === undefined) {
    return '';
  }
  if (s < 1e-3) {
    return `${digits(s * 1e6)} µs`;
  }
  if (s < 1) {
    return `${digits(s * 1e3)} ms`;
  }
  if (s < 120) {
    return `${digits(s)} s`;
  }
  return s < 7200 ? `${digits(s / 60)} min` : `${digits(s / 3600)} h`;
}

/** count shows a number with separators of thousands. */
export const count = (n: number | bigint): string => n.toLocaleString();

/** rate shows calls a second. */
export const rate = (n: number): string => (n === 0 ? '0' : digits(n));

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(n: number | bigint): string {
  let v = Number(n);
  let unit = 0;
  for (; v >= 1024 && unit < units.length - 1; unit++) {
    v /= 1024;
  }
  return `${unit === 0 ? v : digits(v)} ${units[unit]}`;
}

function digits(v: number): string {
  return v >= 100 ? Math.round(v).toLocaleString() : Number(v.toPrecision(2)).toLocaleString();
}
