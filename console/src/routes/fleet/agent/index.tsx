import { $, component$, useComputed$, useSignal } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import { useEvents, type EventFilter } from '~/fleet/events';
import { Advices, Facts, Failures } from '~/fleet/node';
import { Tags } from '~/fleet/state';
import { EventTable } from '~/fleet/timeline';
import { Freshness } from '~/live/freshness';
import { usePoll } from '~/live/poll';
import { Link } from '~/shell/link';
import { param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';

const pause = 2000;

export default component$(() => {
  const url = useUrl();
  const name = param(url.value, 'name');
  const query = useComputed$(() => param(url.value, 'name') || undefined);
  const { found, failure, live } = usePoll(
    query,
    pause,
    $(async (agent: string, signal: AbortSignal) => ({ name: agent, ...(await registry().findAgents({ agent }, { signal })) })),
  );
  const answer = found.value?.name === name ? found.value : undefined;
  const agent = answer?.agents[0];
  return (
    <>
      <p><Link href="/fleet/">← All agents</Link></p>
      {url.value && !name && <p>The address names no agent: choose one of them.</p>}
      <div class="head">
        <h1>{plain(name) || 'Agent'}</h1>
        {agent && <Tags agent={agent} />}
        {name && <Freshness live={live.value} />}
      </div>
      <Problem failure={failure.value} />
      {answer && !agent && (
        <p class="card empty">The registry does not know an agent of this name. It forgets an agent an hour after its last report. The events below may still name it.</p>
      )}
      {agent && answer && (
        <>
          <Advices agent={agent} />
          <Failures agent={agent} />
          <Facts agent={agent} head={answer.headRevision} />
        </>
      )}
      {/* Below the facts: they would move when those come. */}
      {name && (answer || failure.value) && <Events agent={name} />}
    </>
  );
});

/** Events lists the events that name an agent. An event of many agents names the first eight. */
const Events = component$<{ agent: string }>(({ agent }) => {
  const filter = useSignal<EventFilter>({ tenant: '', name: '', types: ['agent', 'drift'], hours: 0 });
  const { events, more, wanted, failure, live } = useEvents(filter);
  const looked = useSignal(0);
  const of = useComputed$(() => events.value?.filter((e) => e.subjects.includes(agent)) ?? []);
  return (
    <section>
      <div class="head">
        <h2>Events</h2>
        <Freshness live={live.value} />
      </div>
      <Problem failure={failure.value} />
      {events.value && of.value.length === 0 && <p class="faint">None of the last {events.value.length.toLocaleString()} events of agents names it.</p>}
      {of.value.length > 0 && <EventTable events={of.value} more={false} wanted={looked} />}
      <p class="faint">
        An event of many agents names the first eight of them.
        {more.value && <> <button type="button" class="link" onClick$={() => (wanted.value = events.value?.length ?? 0)}>Look for older events</button></>}
      </p>
    </section>
  );
});

export const head: DocumentHead = { title: 'Agent' };
