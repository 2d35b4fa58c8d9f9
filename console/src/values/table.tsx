import { component$ } from '@builder.io/qwik';
import type { Unreadable } from '~/gen/proto/registry/v1/registry_pb';
import type { Value } from '~/gen/proto/script/v1/script_pb';
import type { Listed } from '~/live/pages';
import { Link } from '~/shell/link';
import { hrefWith } from '~/shell/query';
import { bytes, count } from '~/ui/number';
import { plain } from '~/ui/plain';
import { LongTable, rowIndex } from '~/ui/table';
import { Time } from '~/ui/time';
import type { Window } from '~/ui/window';

/** Values are the values of a tenant, as far as they are loaded. */
export interface Values extends Listed<Value> {
  used: number;
  quota: number;
  unreadable: Unreadable[];
}

/** ValueTable shows no contents, because they can be secret. */
export const ValueTable = component$<{ list: Values | undefined; seen: Window }>(({ list, seen }) => (
  <LongTable
    label="Values"
    columns={5}
    seen={seen}
    total={list?.items.length ?? 0}
    more={!list || list.next !== ''}
    head={
      <>
        <th scope="col">Key</th><th scope="col" class="number">Version</th><th scope="col" class="number">Size</th>
        <th scope="col" class="spare">Changed by</th><th scope="col">Changed</th>
      </>
    }
    row={(at) => <Row v={list!.items[at]!} at={at} />}
  />
));

const Row = ({ v, at }: { v: Value; at: number }) => (
  <tr key={v.key} aria-rowindex={rowIndex(at)}>
    <td class="mono"><Link href={hrefWith('/values/', { tenant: v.tenant, key: v.key })}>{v.key}</Link></td>
    <td class="number">{v.version > 0n ? String(v.version) : ''}</td>
    <td class="number">{bytes(v.size)}</td>
    <td class="spare">{plain(v.author)}</td>
    <td><Time at={v.changedAt} /></td>
  </tr>
);

/** Quota shows how much of its quota a tenant uses. */
export const Quota = ({ list }: { list: Values }) => (
  <p class="summary">
    <span>
      <meter aria-label="Used part of the quota" min={0} max={list.quota || 1} high={0.8 * list.quota} optimum={0} value={list.used} />{' '}
      {bytes(list.used)} of {bytes(list.quota)} used
    </span>
    {list.unreadable.length > 0 && <span class="bad">{count(list.unreadable.length)} records cannot be read: {list.unreadable.slice(0, 3).map((u) => plain(u.key)).join(', ')}. Run scriptctl doctor.</span>}
  </p>
);
