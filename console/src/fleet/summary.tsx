import { $, component$, useSignal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { AgentState } from '~/gen/proto/registry/v1/registry_pb';
import type { Freeze } from '~/gen/proto/script/v1/script_pb';
import { usePoll } from '~/live/poll';
import { Link } from '~/shell/link';
import { count } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Time } from '~/ui/time';

interface Totals {
  connected: number;
  unknown: number;
  behind: number;
  failing: number;
  head: bigint;
  freeze: Freeze | undefined;
}

const pause = 5000;

/** Summary counts the agents of the fleet in one line. */
export const Summary = component$(() => {
  const { found, failure } = usePoll(useSignal(true), pause, $((_: boolean, signal: AbortSignal) => load(signal)));
  const t = found.value;
  return (
    <>
      <p class="summary" role="status" aria-label="Summary of the fleet">
        {t ? (
          <>
            <span><b>{count(t.connected)}</b> connected</span>
            <Figure n={t.unknown} text="unknown" state="unknown" />
            <Figure n={t.behind} text="behind" state="behind" />
            <Figure n={t.failing} text="failing" state="failing" />
            <span>revision <b>{String(t.head)}</b></span>
          </>
        ) : (
          !failure.value && <span class="faint">Counting agents…</span>
        )}
      </p>
      {t?.freeze && !t.freeze.lifted && <Frozen freeze={t.freeze} />}
    </>
  );
});

const Figure = ({ n, text, state }: { n: number; text: string; state: string }) => (
  <Link href={`/fleet/?state=${state}`} class={n > 0 ? 'warn' : 'faint'}><b>{count(n)}</b> {text}</Link>
);

/** Frozen shows who froze the registry, and why. */
const Frozen = ({ freeze }: { freeze: Freeze }) => (
  <p class="notice warn" role="status">
    {freeze.unreadable ? (
      <>Everything is frozen: the record of the freeze cannot be read. {plain(freeze.unreadable)}</>
    ) : (
      <>
        <b>{plain(freeze.author) || 'Somebody'}</b> froze the registry (<Time at={freeze.since} />): {plain(freeze.note) || 'no reason was given'}.
        Published versions wait{freeze.until ? <> until <Time at={freeze.until} /></> : ' until somebody thaws it'}.
        {freeze.except.length > 0 && <> Not frozen: {freeze.except.map(plain).join(', ')}.</>}
      </>
    )}
  </p>
);

async function load(signal: AbortSignal): Promise<Totals> {
  const total = (state: AgentState) => registry().findAgents({ state, limit: 1 }, { signal });
  const [behind, failing, { status }] = await Promise.all([
    total(AgentState.BEHIND),
    total(AgentState.FAILING),
    registry().status({ pageSize: 1 }, { signal }),
  ]);
  const { connected, unknown, headRevision: head } = behind;
  return { connected, unknown, head, behind: behind.total, failing: failing.total, freeze: status?.freeze };
}
