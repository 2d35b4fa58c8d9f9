import { useSignal, useVisibleTask$, type QRL, type Signal } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';

/** useLoad asks once for each query, and asks nothing while the query is undefined. The last answer stays until the next one. */
export function useLoad<Q, T>(query: Signal<Q | undefined>, load$: QRL<(query: Q, signal: AbortSignal) => Promise<T>>) {
  const found = useSignal<T>();
  const failure = useSignal<Failure>();

  useVisibleTask$(
    ({ track, cleanup }) => {
      const q = track(() => query.value);
      if (q === undefined) {
        return;
      }
      const abort = new AbortController();
      cleanup(() => abort.abort());
      begin(load$(q, abort.signal), abort.signal, found, failure);
    },
    { strategy: 'document-ready' },
  );
  return { found, failure };
}

/** begin keeps what comes of a load, unless the load was aborted. Nothing waits for it: a task that waits holds up the page. */
export function begin<T>(load: Promise<T>, signal: AbortSignal, found: Signal<T | undefined>, failure: Signal<Failure | undefined>): void {
  load.then(
    (answer) => {
      if (!signal.aborted) {
        found.value = answer;
        failure.value = undefined;
      }
    },
    (error: unknown) => {
      if (!signal.aborted) {
        failure.value = failureOf(error);
      }
    },
  );
}
