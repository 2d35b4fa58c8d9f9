import { component$ } from '@builder.io/qwik';
import { Link } from '@builder.io/qwik-city';
import type { Value } from '~/gen/proto/script/v1/script_pb';
import { hrefWith } from '~/shell/query';
import { bytes, count } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Spacer } from '~/ui/spacer';
import { Time } from '~/ui/time';
import type { Window } from '~/ui/window';
import type { Listed } from './list';

const columns = 5;

/** ValueTable has those rows alone that a person sees, and no contents. */
export const ValueTable = component$<{ list: Listed | undefined; seen: Window }>(({ list, seen }) => {
  const values = list?.values ?? [];
  const from = Math.min(seen.from.value, values.length);
  const to = Math.min(seen.to.value, values.length);
  return (
    <div class="viewport windowed" ref={seen.viewport} onScroll$={seen.onScroll$} tabIndex={0} role="region" aria-label="Values">
      <table aria-rowcount={list && !list.next ? values.length + 1 : -1}>
        <thead>
          <tr>
            <th scope="col">Key</th><th scope="col" class="number">Version</th><th scope="col" class="number">Size</th>
            <th scope="col" class="spare">Changed by</th><th scope="col">Changed</th>
          </tr>
        </thead>
        <tbody>
          <Spacer rows={from} height={seen.rowHeight} columns={columns} />
          {values.slice(from, to).map((v, i) => <Row key={v.key} v={v} at={from + i} />)}
          <Spacer rows={values.length - to} height={seen.rowHeight} columns={columns} />
          {(!list || list.next) && <tr class="skeleton"><td colSpan={columns}></td></tr>}
        </tbody>
      </table>
    </div>
  );
});

const Row = ({ v, at }: { v: Value; at: number }) => (
  <tr aria-rowindex={at + 2}>
    <td class="mono"><Link prefetch={false} href={hrefWith('/values/', { tenant: v.tenant, key: v.key })}>{v.key}</Link></td>
    <td class="number">{v.version > 0n ? String(v.version) : ''}</td>
    <td class="number">{bytes(v.size)}</td>
    <td class="spare">{plain(v.author)}</td>
    <td><Time at={v.changedAt} /></td>
  </tr>
);

/** Quota says how much of what a tenant may keep it does keep. */
export const Quota = ({ list }: { list: Listed }) => (
  <p class="summary">
    <span>
      <meter aria-label="Used part of the quota" min={0} max={list.quota || 1} high={0.8 * list.quota} optimum={0} value={list.used} />{' '}
      {bytes(list.used)} of {bytes(list.quota)} used
    </span>
    {list.unreadable.length > 0 && <span class="bad">{count(list.unreadable.length)} records cannot be read: {list.unreadable.slice(0, 3).map((u) => plain(u.key)).join(', ')}. Run scriptctl doctor.</span>}
  </p>
);
