import { component$ } from '@builder.io/qwik';
import { Link, type DocumentHead } from '@builder.io/qwik-city';
import { Freshness } from '~/live/freshness';
import { filterOf, isFiltered } from '~/scripts/filter';
import { Filters } from '~/scripts/filters';
import { useHealth } from '~/scripts/health';
import { useRows } from '~/scripts/rows';
import { Table } from '~/scripts/table';
import { useUrl } from '~/shell/url';
import { count } from '~/ui/number';
import { useWindow } from '~/ui/window';

const rowHeight = 40;

export default component$(() => {
  const url = useUrl();
  const window = useWindow(rowHeight);
  const { rows, live } = useRows(url, window);
  const health = useHealth(url);
  const total = rows.value.total;
  return (
    <>
      <div class="head">
        <h1>Scripts</h1>
        {total !== undefined && <span class="faint">{count(total)}</span>}
        <Freshness live={live.value} />
        <div class="end"><Link class="button primary" href="/script/new/" prefetch={false}>New script</Link></div>
      </div>
      <Filters url={url} />
      {total === 0 ? <Empty filtered={isFiltered(filterOf(url.value))} /> : <Table url={url} rows={rows.value} health={health.value} window={window} />}
    </>
  );
});

const Empty = ({ filtered }: { filtered: boolean }) =>
  filtered ? (
    <div class="card empty">
      <h2>No script matches</h2>
      <p><Link href="/" prefetch={false}>Show all scripts</Link></p>
    </div>
  ) : (
    <div class="card empty">
      <h2>There are no scripts yet</h2>
      <p>A script is a small program that runs on every node, beside the gateway. <Link href="/script/new/" prefetch={false}>Write one here</Link>, or make a folder of files and publish it:</p>
      <pre>{`scriptctl init shop --tenant acme\nscriptctl publish shop/route.yaml`}</pre>
    </div>
  );

export const head: DocumentHead = { title: 'Scripts' };
