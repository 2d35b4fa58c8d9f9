import type { QueryResult } from '~/gen/proto/registry/v1/registry_pb';
import { count } from '~/ui/number';
import { plain } from '~/ui/plain';
import type { Before } from './tail';

interface Props {
  before: Before | undefined;
  /** Lines that the page has dropped, and those that never reached it. */
  dropped: number;
  missed: number;
}

/** Notices explains which lines are missing. */
export const Notices = ({ before, dropped, missed }: Props) => {
  const all = [
    missed > 0 && `${count(missed)} lines were left out, since they were too many.`,
    dropped > 0 && `${count(dropped)} older lines made room for newer ones.`,
    before?.truncated && 'Agents have more lines of that time than the page loads: choose a shorter time or a filter.',
    before?.evicted && 'Agents have forgotten some lines of that time.',
  ].filter(Boolean);
  return (
    <>
      {all.length > 0 && <p class="notice" role="status">{all.join(' ')}</p>}
      {before?.result && <Silent result={before.result} />}
    </>
  );
};

/** Silent names the agents whose earlier lines are missing. */
const Silent = ({ result: r }: { result: QueryResult }) => {
  if (r.silent + r.older + r.failed === 0) {
    return null;
  }
  return (
    <details class="notice warn">
      <summary>
        {count(r.answered)} agents answered.
        {r.silent > 0 && ` ${count(r.silent)} did not answer in time.`}
        {r.older > 0 && ` ${count(r.older)} are too old to answer.`}
        {r.failed > 0 && ` ${count(r.failed)} could not answer.`}
      </summary>
      <ul>
        {r.silentAgents.map((a) => <li key={a}>{plain(a)}: no answer</li>)}
        {r.olderAgents.map((a) => <li key={a}>{plain(a)}: its software is too old</li>)}
        {r.failures.map((f) => <li key={f.agent}>{plain(f.agent)}: {plain(f.error?.message ?? '')}</li>)}
      </ul>
    </details>
  );
};
