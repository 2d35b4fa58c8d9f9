import { $, component$, useSignal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import type { Tenant } from '~/gen/proto/script/v1/script_pb';
import { usePages, type Listed } from '~/live/pages';
import { Link } from '~/shell/link';
import { hrefWith } from '~/shell/query';
import { count } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';
import { LongTable, rowIndex } from '~/ui/table';
import { Time } from '~/ui/time';
import { useWindow } from '~/ui/window';
import { draftOf } from './fields';

interface Tenants extends Listed<Tenant> {
  unreadable: number;
}

const page = 500;

/** TenantList lists the tenants with settings. */
export const TenantList = component$(() => {
  const seen = useWindow();
  const { list, failure } = usePages(
    useSignal(true),
    seen,
    $(async (_: boolean, have: Tenants | undefined, signal: AbortSignal): Promise<Tenants> => {
      const a = await registry().listTenants({ pageSize: page, pageToken: have?.next ?? '' }, { signal });
      return {
        items: [...(have?.items ?? []), ...a.tenants.filter((t) => !t.deleted)],
        next: a.nextPageToken,
        unreadable: (have?.unreadable ?? 0) + a.unreadable.length,
      };
    }),
  );
  const tenants = list.value?.items ?? [];
  const more = !list.value || list.value.next !== '';
  return (
    <>
      <Problem failure={failure.value} />
      {(list.value?.unreadable ?? 0) > 0 && <p class="error">The settings of {count(list.value!.unreadable)} tenants cannot be read. Run scriptctl doctor.</p>}
      {!more && tenants.length === 0 && (
        <div class="card empty">
          <h2>No tenant has settings</h2>
          <p>The defaults hold for all of them. Choose a tenant above to see them, or to set its limits and quotas.</p>
        </div>
      )}
      {!failure.value && (tenants.length > 0 || more) && (
        <LongTable
          label="Tenants with settings"
          columns={7}
          seen={seen}
          total={tenants.length}
          more={more}
          head={
            <>
              <th scope="col">Tenant</th><th scope="col">Isolation</th><th scope="col" class="number">Processor</th><th scope="col" class="number">Memory</th>
              <th scope="col" class="number spare">Values</th><th scope="col" class="spare">Changed by</th><th scope="col">Changed</th>
            </>
          }
          row={(at) => <Row t={tenants[at]!} at={at} />}
        />
      )}
    </>
  );
});

const Row = ({ t, at }: { t: Tenant; at: number }) => {
  const d = draftOf(t.settings);
  const of = (text: string | undefined) => text || <span class="faint">default</span>;
  return (
    <tr key={t.name} aria-rowindex={rowIndex(at)}>
      <td><Link href={hrefWith('/tenants/', { tenant: t.name })}>{plain(t.name)}</Link></td>
      <td>{d.isolation === 'process' ? <span class="tag accent">process</span> : 'shared'}{d.audit === 'strict' && <> <span class="tag">strict audit</span></>}</td>
      <td class="number">{of(d.cpu)}</td>
      <td class="number">{of(d.memoryBytes)}</td>
      <td class="number spare">{of(d.valueBytes)}</td>
      <td class="spare">{plain(t.author)}</td>
      <td><Time at={t.changedAt} /></td>
    </tr>
  );
};
