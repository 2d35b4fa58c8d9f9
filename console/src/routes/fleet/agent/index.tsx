import { component$, useComputed$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { Link, type DocumentHead } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import { useEvents, type EventFilter } from '~/fleet/events';
import { Advices, Facts, Failures } from '~/fleet/node';
import { Tags } from '~/fleet/state';
import { EventTable } from '~/fleet/timeline';
import type { FindAgentsResponse } from '~/gen/proto/registry/v1/registry_pb';
import { connecting, poll, type Live } from '~/live/follow';
import { Freshness } from '~/live/freshness';
import { param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';

const pause = 2000;

export default component$(() => {
  const url = useUrl();
  const found = useSignal<FindAgentsResponse>();
  const failure = useSignal<Failure>();
  const live = useSignal<Live>(connecting());
  const name = param(url.value, 'name');

  useVisibleTask$(({ track, cleanup }) => {
    const agent = param(track(() => url.value), 'name');
    found.value = undefined;
    if (!agent) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    void poll(abort.signal, live, pause, async (signal) => {
      try {
        found.value = await registry().findAgents({ agent }, { signal });
        failure.value = undefined;
      } catch (error) {
        failure.value = failureOf(error);
        throw error;
      }
    });
  }, { strategy: 'document-ready' });

  const agent = found.value?.agents[0];
  return (
    <>
      <p><Link href="/fleet/">← All agents</Link></p>
      <div class="head">
        <h1>{plain(name) || 'Agent'}</h1>
        {agent && <Tags agent={agent} />}
        <Freshness live={live.value} />
      </div>
      <Problem failure={failure.value} />
      {found.value && !agent && (
        <p class="card empty">The registry does not know an agent of this name. It forgets an agent that it has not heard for an hour. The events below may still name it.</p>
      )}
      {agent && found.value && (
        <>
          <Advices agent={agent} />
          <Failures agent={agent} />
          <Facts agent={agent} head={found.value.headRevision} />
        </>
      )}
      {name && <Events agent={name} />}
    </>
  );
});

/** Events of an agent are those that name it: an event of many agents names the first eight. */
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
