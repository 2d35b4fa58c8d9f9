import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';
import type { AuditEntry } from '~/gen/proto/script/v1/script_pb';
import type { Window } from '~/ui/window';
import { filterOf, load, type Filter } from './pages';

/** Entries are the writes that a page has loaded, newest first. */
export interface Entries {
  /** Undefined until the registry has answered. */
  entries: Signal<AuditEntry[] | undefined>;
  more: Signal<boolean>;
  filter: Signal<Filter | undefined>;
  failure: Signal<Failure | undefined>;
}

const page = 200;
/** Whoever wants more exports them. */
export const most = 20_000;

/** useEntries loads a page, and the next one whenever the person has scrolled near the end. reload begins anew. */
export function useEntries(url: Signal<URL | undefined>, seen: Window, reload: Signal<number>): Entries {
  const entries = useSignal<AuditEntry[]>();
  const next = useSignal('');
  const more = useSignal(false);
  const filter = useSignal<Filter>();
  const failure = useSignal<Failure>();

  useVisibleTask$(
    ({ track }) => {
      const at = track(() => url.value);
      track(() => reload.value);
      entries.value = undefined;
      failure.value = undefined;
      next.value = '';
      filter.value = at && filterOf(at);
    },
    { strategy: 'document-ready' },
  );

  useVisibleTask$(
    async ({ track, cleanup }) => {
      const f = track(() => filter.value);
      const have = track(() => entries.value);
      const to = track(() => seen.to.value);
      if (!f || (have && (!next.value || to < have.length || have.length >= most))) {
        return;
      }
      const abort = new AbortController();
      cleanup(() => abort.abort());
      try {
        const answer = await load(f, next.value, page, abort.signal);
        next.value = answer.next;
        more.value = answer.next !== '';
        entries.value = [...(have ?? []), ...answer.entries];
      } catch (error) {
        if (!abort.signal.aborted) {
          failure.value = failureOf(error);
        }
      }
    },
    { strategy: 'document-ready' },
  );
  return { entries, more, filter, failure };
}
