import { useSignal, useTask$, type QRL, type Signal } from '@builder.io/qwik';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { isNew, type Bench } from './bench';
import { newsOf, story } from './changed';

/**
 * useTheirs reports what somebody else did since the draft began, as a sentence. The registry reports each change at once. A
 * draft without changes catches up.
 */
export function useTheirs(
  bench: Bench,
  seen: Signal<Release | undefined>,
  script: Signal<ScriptStatus | undefined>,
  publishing: Signal<boolean>,
  catchUp$: QRL<(what: string) => Promise<void>>,
): Signal<string> {
  const theirs = useSignal('');
  const told = useSignal(0n);

  useTask$(({ track }) => {
    const now = track(() => script.value)?.release;
    const busy = track(() => publishing.value);
    const { draft } = bench;
    const news = newsOf(draft.value, seen.value, now);
    if (!now || busy || news === 'none' || isNew(draft.value)) {
      return;
    }
    if (news === 'moved') {
      seen.value = now;
      draft.value = { ...draft.value, baseRevision: now.revision };
      return;
    }
    if (told.value === now.revision) {
      return;
    }
    told.value = now.revision;
    // Not awaited: a task that waits would hold up the page.
    void story(seen.value, now).then(async (what) => {
      if (!draft.value.dirty && !now.deleted) {
        await catchUp$(what);
      }
      theirs.value = what;
    });
  });
  return theirs;
}
