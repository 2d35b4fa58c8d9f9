import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import type { Unreadable } from '~/gen/proto/registry/v1/registry_pb';
import type { Value } from '~/gen/proto/script/v1/script_pb';
import { param } from '~/shell/query';
import type { Window } from '~/ui/window';

/** Listed are the values of a tenant, as far as they are loaded. */
export interface Listed {
  values: Value[];
  next: string;
  used: number;
  quota: number;
  unreadable: Unreadable[];
}

const page = 500;

/** useValues loads a page, and the next one whenever the person has scrolled near the end. */
export function useValues(url: Signal<URL | undefined>, seen: Window, changed: Signal<number>) {
  const list = useSignal<Listed>();
  const failure = useSignal<Failure>();
  const query = useSignal<{ tenant: string; prefix: string }>();

  useVisibleTask$(
    ({ track }) => {
      const at = track(() => url.value);
      track(() => changed.value);
      const tenant = param(at, 'tenant');
      failure.value = undefined;
      list.value = undefined;
      query.value = tenant && !param(at, 'key') ? { tenant, prefix: param(at, 'prefix') } : undefined;
    },
    { strategy: 'document-ready' },
  );

  useVisibleTask$(
    async ({ track, cleanup }) => {
      const q = track(() => query.value);
      const have = track(() => list.value);
      const to = track(() => seen.to.value);
      if (!q || (have && (!have.next || to < have.values.length))) {
        return;
      }
      const abort = new AbortController();
      cleanup(() => abort.abort());
      try {
        const a = await registry().listValues({ ...q, pageSize: page, pageToken: have?.next ?? '' }, { signal: abort.signal });
        list.value = {
          values: [...(have?.values ?? []), ...a.values.filter((v) => !v.deleted)],
          next: a.nextPageToken,
          used: Number(a.usedBytes),
          quota: Number(a.quotaBytes),
          unreadable: [...(have?.unreadable ?? []), ...a.unreadable],
        };
      } catch (error) {
        if (!abort.signal.aborted) {
          failure.value = failureOf(error);
        }
      }
    },
    { strategy: 'document-ready' },
  );
  return { list, failure };
}
