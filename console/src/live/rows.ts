import { $, useComputed$, useSignal, type QRL, type Signal } from '@builder.io/qwik';
import type { Window } from '~/ui/window';
import { usePoll } from './poll';

/** Answer has some rows of a result. */
interface Answer<T> {
  rows: T[];
  /** How many rows the whole result has. */
  total: number;
}

/** Range is which rows of the result an answer has. */
export interface Range {
  offset: number;
  limit: number;
}

const most = 200; // rows of one answer
const kept = 2000;

/**
 * useRows loads the rows in the window again and again. Rows that were loaded before stay until the query of the URL changes, so
 * that scrolling back shows them at once.
 */
export function useRows<A extends Answer<unknown>>(
  url: Signal<URL | undefined>,
  seen: Window,
  pause: number,
  load$: QRL<(url: URL, range: Range, signal: AbortSignal) => Promise<A>>,
) {
  const rows = useSignal<Map<number, A['rows'][number]>>(new Map());
  const search = useSignal('');
  const query = useComputed$(() => url.value && { url: url.value, from: seen.from.value, to: seen.to.value });
  const polled = usePoll(
    query,
    pause,
    $(async ({ url, from, to }: { url: URL; from: number; to: number }, signal: AbortSignal): Promise<A> => {
      const loaded: A['rows'] = [];
      for (;;) {
        const offset = from + loaded.length;
        const answer = await load$(url, { offset, limit: Math.min(to - offset, most) }, signal);
        loaded.push(...answer.rows);
        const end = from + loaded.length;
        if (answer.rows.length === 0 || end >= Math.min(to, answer.total)) {
          const before = search.value === url.search && rows.value.size < kept ? rows.value : [];
          rows.value = new Map([...before, ...loaded.map((row, i): [number, A['rows'][number]] => [from + i, row])]);
          search.value = url.search;
          return answer;
        }
      }
    }),
  );
  return { rows, ...polled };
}
