import { $, component$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import { filterOf, stateChoices } from '~/fleet/filter';
import { Summary } from '~/fleet/summary';
import { AgentTable } from '~/fleet/table';
import { Tabs } from '~/fleet/tabs';
import { Freshness } from '~/live/freshness';
import { useRows, type Range } from '~/live/rows';
import { ChoiceFilter, TextFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { count } from '~/ui/number';
import { Problem } from '~/ui/problem';
import { useWindow } from '~/ui/window';

const pause = 2000;

export default component$(() => {
  const url = useUrl();
  const seen = useWindow();
  const { rows, found, failure, live } = useRows(
    url,
    seen,
    pause,
    $(async (at: URL, range: Range, signal: AbortSignal) => {
      const { agents, total } = await registry().findAgents({ ...filterOf(at), ...range }, { signal });
      return { rows: agents, total };
    }),
  );
  const total = found.value?.total;
  const filtered = param(url.value, 'q') !== '' || param(url.value, 'state') !== '';
  return (
    <>
      <div class="head">
        <h1>Fleet</h1>
        <Freshness live={live.value} />
      </div>
      <Tabs at="agents" />
      <Summary />
      <div class="tools">
        <TextFilter label="Search" name="q" value={param(url.value, 'q')} placeholder="a name, software or zone=west" />
        <ChoiceFilter label="State" name="state" value={param(url.value, 'state')} options={stateChoices} />
        <span class="faint found" role="status">{total !== undefined && `${count(total)} ${total === 1 ? 'agent' : 'agents'}`}</span>
      </div>
      <Problem failure={failure.value} />
      {total === 0 && !failure.value && (filtered ? <p class="card empty">No agent matches. Remove a word, or choose another state.</p> : <NoAgents />)}
      {(total ?? 1) > 0 && !(failure.value && total === undefined) && <AgentTable url={url.value} rows={rows.value} total={total ?? 12} seen={seen} />}
    </>
  );
});

const NoAgents = () => (
  <div class="card empty">
    <h2>No agent has reported yet</h2>
    <p>An agent runs on each node, beside the gateway, and holds all scripts. Start one:</p>
    <pre>scriptorium agentd --registry REGISTRY:7070 --nats-url nats://NATS:4222</pre>
  </div>
);

export const head: DocumentHead = { title: 'Fleet' };
