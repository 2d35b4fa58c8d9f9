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
      const load = async () => {
        try {
          const answer = await load$(q, abort.signal);
          if (!abort.signal.aborted) {
            found.value = answer;
            failure.value = undefined;
          }
        } catch (error) {
          if (!abort.signal.aborted) {
            failure.value = failureOf(error);
          }
        }
      };
      // Not awaited: a task that waits would hold up the page.
      void load();
    },
    { strategy: 'document-ready' },
  );
  return { found, failure };
}
