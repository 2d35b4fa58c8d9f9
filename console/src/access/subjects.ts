import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import type { PolicySubject } from '~/gen/proto/registry/v1/registry_pb';
import { connecting, poll } from '~/live/follow';
import { param } from '~/shell/query';
import type { Window } from '~/ui/window';

/** Found are the subjects that a person looks for; those alone that are seen are loaded. */
export interface Found {
  first: number;
  subjects: PolicySubject[];
  total: number;
  noPolicy: boolean;
}

const pause = 10_000;
const most = 200;

export function useSubjects(url: Signal<URL | undefined>, seen: Window) {
  const found = useSignal<Found>();
  const failure = useSignal<Failure>();

  useVisibleTask$(
    ({ track, cleanup }) => {
      const at = track(() => url.value);
      const first = track(() => seen.from.value);
      const last = track(() => seen.to.value);
      if (!at) {
        return;
      }
      const abort = new AbortController();
      cleanup(() => abort.abort());
      void poll(abort.signal, { value: connecting() } as Signal, pause, async (signal) => {
        try {
          const a = await registry().listGrants({ search: param(at, 'q'), tenant: param(at, 'tenant'), offset: first, limit: Math.min(last - first, most) }, { signal });
          found.value = { first, subjects: a.subjects, total: a.total, noPolicy: a.noPolicy };
          failure.value = undefined;
        } catch (error) {
          failure.value = failureOf(error);
          if (failure.value.kind === 'DENIED') {
            abort.abort(); // It does not change while the page is open.
          }
          throw error;
        }
      });
    },
    { strategy: 'document-ready' },
  );
  return { found, failure };
}
