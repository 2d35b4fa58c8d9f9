import { component$ } from '@builder.io/qwik';
import type { HistoryEntry } from '~/gen/proto/script/v1/script_pb';
import { By } from '~/release/by';
import { changeText } from '~/release/change';
import { Time } from '~/ui/time';

const shown = 30;

/** Decisions lists the decisions about the candidate, newest first, by the registry and by people. */
export const Decisions = component$(({ history, version }: { history: HistoryEntry[]; version: bigint | undefined }) => {
  const entries = ofLast(history, version).slice(0, shown);
  return (
    <section class="card" aria-labelledby="decisions">
      <h2 id="decisions">Decisions</h2>
      {entries.length === 0 && <p class="faint">None yet.</p>}
      <ol class="decisions">
        {entries.map((e) => (
          <li key={String(e.revision)}>
            <Time at={e.time} /> <By entry={e} />{' '}
            <strong>{changeText(e)}</strong>
            {e.note && <>: {e.note}</>}
          </li>
        ))}
      </ol>
    </section>
  );
});

/** ofLast returns the changes since the candidate was published; without a candidate, the changes of the last rollout. */
function ofLast(history: HistoryEntry[], version: bigint | undefined): HistoryEntry[] {
  const about = version ?? history.find((e) => e.candidate > 0n)?.candidate;
  const begin = history.findIndex((e) => e.change === 'publish' && e.candidate === about);
  return begin < 0 ? history : history.slice(0, begin + 1);
}
