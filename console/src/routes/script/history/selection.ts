import type { Release } from '~/gen/proto/script/v1/script_pb';

/** Selection is which two versions are compared. They stand in the URL. */
export interface Selection {
  a: bigint;
  b: bigint;
  split: boolean;
}

/** selectionOf is the newest version and the one that runs, or the one before it, if the URL says nothing else. */
export function selectionOf(url: URL | undefined, r: Release): Selection {
  const numbers = r.retained.map((v) => v.number);
  const b = chosen(url?.searchParams.get('b'), numbers) ?? numbers.at(-1) ?? 0n;
  const before = numbers.filter((n) => n < b).at(-1);
  const active = r.active?.number;
  const a = chosen(url?.searchParams.get('a'), numbers) ?? (active !== undefined && active !== b ? active : before) ?? b;
  return { a, b, split: url?.searchParams.get('view') === 'split' };
}

const chosen = (text: string | null | undefined, numbers: bigint[]): bigint | undefined => numbers.find((n) => String(n) === text);
