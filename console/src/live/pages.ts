import { useSignal, useVisibleTask$, type QRL, type Signal } from '@builder.io/qwik';
import type { Failure } from '~/api/failure';
import type { Window } from '~/ui/window';
import { begin } from './load';

/** Listed is a list as far as it is loaded. */
export interface Listed<T> {
  items: T[];
  /** The token of the next page; empty if there is none. */
  next: string;
}

/** usePages loads the first page of a list, and the next one when the person scrolls near the end. load$ adds a page to what is there. */
export function usePages<Q, L extends Listed<unknown>>(
  query: Signal<Q | undefined>,
  seen: Window,
  load$: QRL<(query: Q, have: L | undefined, signal: AbortSignal) => Promise<L>>,
  most = Infinity,
) {
  const list = useSignal<L>();
  const failure = useSignal<Failure>();
  const current = useSignal<Q>();

  useVisibleTask$(
    ({ track }) => {
      const q = track(() => query.value);
      list.value = failure.value = undefined;
      current.value = q;
    },
    { strategy: 'document-ready' },
  );

  useVisibleTask$(
    ({ track, cleanup }) => {
      const q = track(() => current.value);
      const have = track(() => list.value);
      const to = track(() => seen.to.value);
      if (q === undefined || (have && (!have.next || to < have.items.length || have.items.length >= most))) {
        return;
      }
      const abort = new AbortController();
      cleanup(() => abort.abort());
      begin(load$(q, have, abort.signal), abort.signal, list, failure);
    },
    { strategy: 'document-ready' },
  );
  return { list, failure };
}
