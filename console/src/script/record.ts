import { useComputed$, useSignal, useTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import type { HistoryEntry, Release } from '~/gen/proto/script/v1/script_pb';
import { releaseOf } from '~/release/conflict';
import type { Live } from '~/live/follow';
import { nameOf } from './name';

/** Record is what the registry keeps of a script: the status has less of it. */
export interface Record {
  /** With all retained versions; undefined for a deleted script. */
  release: Release | undefined;
  /** Newest first. */
  history: HistoryEntry[];
}

/** useRecord reads the record again whenever the status tells another revision, and when the registry answers again. */
export function useRecord(url: Signal<URL | undefined>, status: Signal<ScriptStatus | undefined>, live: Signal<Live>) {
  const record = useSignal<Record>();
  const failure = useSignal<Failure>();
  // Computed, as the status changes far more often than these. A script that never was has no status.
  const revision = useComputed$(() => status.value?.release?.revision);
  const answers = useComputed$(() => live.value.state === 'live');
  useTask$(({ track, cleanup }) => {
    const { tenant, name } = nameOf(track(() => url.value));
    track(() => revision.value);
    if (!track(() => answers.value) || !name) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    const load = async () => {
      try {
        const [release, { entries }] = await Promise.all([releaseOf({ tenant, name }, abort.signal), registry().history({ tenant, name }, { signal: abort.signal })]);
        record.value = { release, history: entries };
        failure.value = undefined;
      } catch (e) {
        if (!abort.signal.aborted) {
          failure.value = failureOf(e);
        }
      }
    };
    void load();
  });
  return { record, failure };
}
