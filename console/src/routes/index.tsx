import { $, component$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import { Freshness } from '~/live/freshness';
import { useRows, type Range } from '~/live/rows';
import { filterOf, isFiltered, stateChoices } from '~/scripts/filter';
import { useHealth } from '~/scripts/health';
import { ScriptTable } from '~/scripts/table';
import { ChoiceFilter, TextFilter } from '~/shell/filters';
import { Link } from '~/shell/link';
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
      const { status, total } = await registry().findScripts({ ...filterOf(at), ...range }, { signal });
      return { rows: status?.scripts ?? [], total };
    }),
  );
  const health = useHealth(url);
  const total = found.value?.total;
  const at = url.value;
  return (
    <>
      <div class="head">
        <h1>Scripts</h1>
        {total !== undefined && <span class="faint">{count(total)}</span>}
        <Freshness live={live.value} />
        <div class="end"><Link class="button primary" href="/script/new/">New script</Link></div>
      </div>
      <search class="tools">
        <TextFilter label="Search" name="q" value={param(at, 'q')} placeholder="acme route" />
        <TextFilter label="Tenant" name="tenant" value={param(at, 'tenant')} type="text" size={12} />
        <TextFilter label="Trigger" name="trigger" value={param(at, 'trigger')} type="text" size={12} />
        <ChoiceFilter label="State" name="state" value={param(at, 'state')} options={stateChoices} />
      </search>
      <Problem failure={failure.value} />
      {total === 0 ? <Empty filtered={isFiltered(at)} /> : <ScriptTable url={at} rows={rows.value} total={total ?? 0} health={health.value} seen={seen} />}
    </>
  );
});

const Empty = ({ filtered }: { filtered: boolean }) =>
  filtered ? (
    <div class="card empty">
      <h2>No script matches</h2>
      <p><Link href="/">Show all scripts</Link></p>
    </div>
  ) : (
    <div class="card empty">
      <h2>There are no scripts yet</h2>
      <p>A script is a small program that runs on every node, beside the gateway. <Link href="/script/new/">Write one here</Link>, or make a folder of files and publish it:</p>
      <pre>{`scriptctl init shop --tenant acme\nscriptctl publish shop/route.yaml`}</pre>
    </div>
  );

export const head: DocumentHead = { title: 'Scripts' };
