import type { Release } from '~/gen/proto/script/v1/script_pb';

/** Selection is the two versions to compare. */
export interface Selection {
  a: bigint;
  b: bigint;
  split: boolean;
}

/** selectionOf reads the URL. It defaults to the newest version against the active version, or the version before. */
export function selectionOf(url: URL | undefined, r: Release): Selection {
  const numbers = r.retained.map((v) => v.number);
  const b = chosen(url?.searchParams.get('b'), numbers) ?? numbers.at(-1) ?? 0n;
  const before = numbers.filter((n) => n < b).at(-1);
  const active = r.active?.number;
  const a = chosen(url?.searchParams.get('a'), numbers) ?? (active !== undefined && active !== b ? active : before) ?? b;
  return { a, b, split: url?.searchParams.get('view') === 'split' };
}

const chosen = (text: string | null | undefined, numbers: bigint[]): bigint | undefined => numbers.find((n) => String(n) === text);
