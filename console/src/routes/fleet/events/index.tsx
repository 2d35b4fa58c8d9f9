import { component$, useComputed$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { useEvents, type EventFilter } from '~/fleet/events';
import { types } from '~/fleet/sentence';
import { Tabs } from '~/fleet/tabs';
import { EventTable } from '~/fleet/timeline';
import { Freshness } from '~/live/freshness';
import { ages, ChoiceFilter, TextFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { TenantChooser } from '~/tenants/chooser';
import { Problem } from '~/ui/problem';

export default component$(() => {
  const url = useUrl();
  const filter = useComputed$((): EventFilter | undefined => {
    const at = url.value;
    return at && { tenant: param(at, 'tenant'), name: param(at, 'name'), types: param(at, 'type') ? [param(at, 'type')] : [], hours: Number(param(at, 'hours')) || 0 };
  });
  const { events, more, wanted, failure, live } = useEvents(filter);
  return (
    <>
      <div class="head">
        <h1>Fleet</h1>
        <Freshness live={live.value} />
      </div>
      <Tabs at="events" />
      <div class="tools pairs">
        <ChoiceFilter label="About" name="type" value={param(url.value, 'type')} options={[['', 'Everything'], ...types]} />
        <TenantChooser value={param(url.value, 'tenant')} any="all tenants" />
        {param(url.value, 'tenant') && <TextFilter label="Script" name="name" value={param(url.value, 'name')} placeholder="all of the tenant" />}
        <ChoiceFilter label="From" name="hours" value={param(url.value, 'hours')} options={ages} />
      </div>
      <Problem failure={failure.value} />
      {events.value?.length === 0 && !more.value && (
        <p class="card empty">Nothing like this has happened{param(url.value, 'hours') ? ' since then' : ' yet'}. Publishes, rollouts, lost agents and all other events appear here when they happen.</p>
      )}
      {!failure.value && !(events.value?.length === 0 && !more.value) && <EventTable events={events.value ?? []} more={!events.value || more.value} wanted={wanted} />}
    </>
  );
});

export const head: DocumentHead = { title: 'Events of the fleet' };
