import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import type { FleetStatus, ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import { connecting, poll, type Live } from '~/live/follow';
import type { Window } from '~/ui/window';
import { filterOf, type Filter } from './filter';

/** Rows is the part of a list that the registry has sent. */
export interface Rows {
  /** Of all scripts that the filter lets through; undefined until the registry has answered. */
  total: number | undefined;
  first: number;
  scripts: ScriptStatus[];
  fleet: FleetStatus | undefined;
}

const pause = 2000;
const most = 200;

/** useRows asks for the rows in the window, when that moves and again and again. */
export function useRows(url: Signal<URL | undefined>, window: Window): { rows: Signal<Rows>; live: Signal<Live> } {
  const rows = useSignal<Rows>({ total: undefined, first: 0, scripts: [], fleet: undefined });
  const live = useSignal<Live>(connecting());

  useVisibleTask$(
    ({ track, cleanup }) => {
      const at = track(() => url.value);
      const first = track(() => window.from.value);
      const last = track(() => window.to.value);
      if (!at) {
        return;
      }
      const abort = new AbortController();
      cleanup(() => abort.abort());
      void poll(abort.signal, live, pause, async (signal) => {
        rows.value = await load(filterOf(at), first, Math.min(last - first, most), signal);
      });
    },
    { strategy: 'document-ready' },
  );
  return { rows, live };
}

async function load(f: Filter, first: number, limit: number, signal: AbortSignal): Promise<Rows> {
  const { search, tenant, trigger, state, order, descending } = f;
  const { status, total } = await registry().findScripts({ search, tenant, trigger, state, order, descending, offset: first, limit }, { signal });
  return { total, first, scripts: status?.scripts ?? [], fleet: status };
}
