import { $, useComputed$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import type { HistoryEntry, Release } from '~/gen/proto/script/v1/script_pb';
import { releaseOf } from '~/release/conflict';
import type { Live } from '~/live/follow';
import { useLoad } from '~/live/load';
import { nameOf, type Name } from './name';

/** Record is the whole release of a script and its history. The status has less. */
interface Record extends Name {
  /** With all retained versions; undefined for a deleted script. */
  release: Release | undefined;
  /** Newest first. */
  history: HistoryEntry[];
}

/** useRecord reads the record again when the status has another revision, and when the registry answers again. */
export function useRecord(url: Signal<URL | undefined>, status: Signal<ScriptStatus | undefined>, live: Signal<Live>) {
  // Computed, because the status changes far more often than these. A script that never existed has no status.
  const revision = useComputed$(() => status.value?.release?.revision);
  const answers = useComputed$(() => live.value.state === 'live');
  const query = useComputed$(() => {
    const { tenant, name } = nameOf(url.value);
    return answers.value && name ? { tenant, name, revision: revision.value } : undefined;
  });
  const { found, failure } = useLoad(
    query,
    $(async ({ tenant, name }: Name, signal: AbortSignal): Promise<Record> => {
      const [release, { entries }] = await Promise.all([releaseOf({ tenant, name }, signal), registry().history({ tenant, name }, { signal })]);
      return { tenant, name, release, history: entries };
    }),
  );
  const record = useComputed$(() => {
    const { tenant, name } = nameOf(url.value);
    return found.value?.tenant === tenant && found.value.name === name ? found.value : undefined;
  });
  return { record, failure };
}
