import { useSignal, useTask$, type QRL, type Signal } from '@builder.io/qwik';
import type { PublishRequest, ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { sendAgain } from '~/release/send';
import { isDirty, isNew, type Bench } from './bench';
import { newsOf, story } from './changed';

/**
 * useTheirs reports what somebody else did since the draft began, as a sentence. The registry reports each change at once. A
 * draft without changes catches up. A change that turns out to be a publish of this draft, whose answer was lost, is not theirs.
 */
export function useTheirs(
  bench: Bench,
  seen: Signal<Release | undefined>,
  script: Signal<ScriptStatus | undefined>,
  publishing: Signal<boolean>,
  catchUp$: QRL<(what: string, before: PublishRequest) => Promise<void>>,
): Signal<string> {
  const theirs = useSignal('');
  const told = useSignal(0n);

  useTask$(({ track }) => {
    const now = track(() => script.value)?.release;
    const busy = track(() => publishing.value);
    const { draft } = bench;
    const news = newsOf(draft.value, seen.value, now);
    if (news === 'none') {
      theirs.value = '';
    }
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
    void (async () => {
      const { request } = draft.value;
      const mine = await sendAgain(draft.value, now.revision);
      const what = mine ? `Version ${mine.version?.number} is published.` : await story(seen.value, now);
      if (mine || (!isDirty(bench) && !now.deleted)) {
        await catchUp$(what, request);
      }
      theirs.value = what;
    })();
  });
  return theirs;
}
