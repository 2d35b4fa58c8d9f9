import { useSignal, useVisibleTask$, type QRL, type Signal } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';
import { connecting, poll, type Live } from './follow';

/** Polled is the last answer, and how fresh it is. */
interface Polled<T> {
  /** Undefined until the registry has answered. */
  found: Signal<T | undefined>;
  failure: Signal<Failure | undefined>;
  live: Signal<Live>;
}

/**
 * usePoll asks again and again while the page is open, and at once when the query changes. It asks nothing while the query is
 * undefined, and stops if the registry denies the answer.
 */
export function usePoll<Q, T>(query: Signal<Q | undefined>, pause: number, load$: QRL<(query: Q, signal: AbortSignal) => Promise<T>>): Polled<T> {
  const found = useSignal<T>();
  const failure = useSignal<Failure>();
  const live = useSignal<Live>(connecting());

  useVisibleTask$(
    ({ track, cleanup }) => {
      const q = track(() => query.value);
      if (q === undefined) {
        return;
      }
      const abort = new AbortController();
      cleanup(() => abort.abort());
      void poll(abort.signal, live, pause, async (signal) => {
        try {
          const answer = await load$(q, signal);
          if (!signal.aborted) {
            found.value = answer;
            failure.value = undefined;
          }
        } catch (error) {
          if (!signal.aborted) {
            failure.value = failureOf(error);
          }
          if (failure.value?.kind === 'DENIED') {
            abort.abort(); // The rights do not change while the page is open.
          }
          throw error;
        }
      });
    },
    { strategy: 'document-ready' },
  );
  return { found, failure, live };
}
