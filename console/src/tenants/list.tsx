import { component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { Link } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import type { Tenant } from '~/gen/proto/script/v1/script_pb';
import { hrefWith } from '~/shell/query';
import { count } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';
import { rowHeight } from '~/ui/rows';
import { Spacer } from '~/ui/spacer';
import { Time } from '~/ui/time';
import { useWindow } from '~/ui/window';
import { draftOf } from './fields';

interface Listed {
  tenants: Tenant[];
  next: string;
  unreadable: number;
}

const page = 500;
const columns = 7;

/** TenantList has the tenants for which something was set. More come when the person scrolls. */
export const TenantList = component$(() => {
  const seen = useWindow(rowHeight);
  const list = useSignal<Listed>();
  const failure = useSignal<Failure>();

  useVisibleTask$(
    async ({ track, cleanup }) => {
      const have = track(() => list.value);
      const to = track(() => seen.to.value);
      if (have && (!have.next || to < have.tenants.length)) {
        return;
      }
      const abort = new AbortController();
      cleanup(() => abort.abort());
      try {
        const a = await registry().listTenants({ pageSize: page, pageToken: have?.next ?? '' }, { signal: abort.signal });
        list.value = {
          tenants: [...(have?.tenants ?? []), ...a.tenants.filter((t) => !t.deleted)],
          next: a.nextPageToken,
          unreadable: (have?.unreadable ?? 0) + a.unreadable.length,
        };
      } catch (error) {
        if (!abort.signal.aborted) {
          failure.value = failureOf(error);
        }
      }
    },
    { strategy: 'document-ready' },
  );

  const tenants = list.value?.tenants ?? [];
  const from = Math.min(seen.from.value, tenants.length);
  const to = Math.min(seen.to.value, tenants.length);
  return (
    <>
      <Problem failure={failure.value} />
      {(list.value?.unreadable ?? 0) > 0 && <p class="error">The settings of {count(list.value!.unreadable)} tenants cannot be read. Run scriptctl doctor.</p>}
      {list.value && tenants.length === 0 && !list.value.next && (
        <div class="card empty">
          <h2>No tenant has settings</h2>
          <p>The defaults hold for all of them. Choose a tenant above to see them, or to set its limits and quotas.</p>
        </div>
      )}
      {!failure.value && (tenants.length > 0 || !list.value) && (
        <div class="viewport windowed" ref={seen.viewport} onScroll$={seen.onScroll$} tabIndex={0} role="region" aria-label="Tenants with settings">
          <table aria-rowcount={list.value && !list.value.next ? tenants.length + 1 : -1}>
            <thead>
              <tr>
                <th scope="col">Tenant</th><th scope="col">Isolation</th><th scope="col" class="number">Processor</th><th scope="col" class="number">Memory</th>
                <th scope="col" class="number spare">Values</th><th scope="col" class="spare">Changed by</th><th scope="col">Changed</th>
              </tr>
            </thead>
            <tbody>
              <Spacer rows={from} height={seen.rowHeight} columns={columns} />
              {tenants.slice(from, to).map((t, i) => <Row key={t.name} t={t} at={from + i} />)}
              <Spacer rows={tenants.length - to} height={seen.rowHeight} columns={columns} />
              {(!list.value || list.value.next) && <tr class="skeleton"><td colSpan={columns}></td></tr>}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
});

const Row = ({ t, at }: { t: Tenant; at: number }) => {
  const d = draftOf(t.settings);
  const of = (text: string | undefined) => text || <span class="faint">default</span>;
  return (
    <tr aria-rowindex={at + 2}>
      <td><Link prefetch={false} href={hrefWith('/tenants/', { tenant: t.name })}>{plain(t.name)}</Link></td>
      <td>{d.isolation === 'process' ? <span class="tag accent">process</span> : 'shared'}{d.audit === 'strict' && <> <span class="tag">strict audit</span></>}</td>
      <td class="number">{of(d.cpu)}</td>
      <td class="number">{of(d.memoryBytes)}</td>
      <td class="number spare">{of(d.valueBytes)}</td>
      <td class="spare">{plain(t.author)}</td>
      <td><Time at={t.changedAt} /></td>
    </tr>
  );
};
