import { $, component$, useComputed$, useSignal } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { Export } from '~/audit/export';
import { filterOf, load, type Filter } from '~/audit/pages';
import { AuditTable } from '~/audit/table';
import type { AuditEntry } from '~/gen/proto/script/v1/script_pb';
import { usePages, type Listed } from '~/live/pages';
import { ages, ChoiceFilter, TextFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { TenantChooser } from '~/tenants/chooser';
import { count } from '~/ui/number';
import { Problem } from '~/ui/problem';
import { useWindow } from '~/ui/window';

const page = 200;
/** A person who wants more exports them. */
const most = 20_000;

export default component$(() => {
  const url = useUrl();
  const seen = useWindow();
  const reload = useSignal(0);
  const filter = useComputed$(() => (reload.value >= 0 && url.value ? filterOf(url.value) : undefined));
  const { list, failure } = usePages(
    filter,
    seen,
    $(async (f: Filter, have: Listed<AuditEntry> | undefined, signal: AbortSignal): Promise<Listed<AuditEntry>> => {
      const { items, next } = await load(f, have?.next ?? '', page, signal);
      return { items: [...(have?.items ?? []), ...items], next };
    }),
    most,
  );
  const at = url.value;
  const entries = list.value?.items ?? [];
  const more = !list.value || list.value.next !== '';
  return (
    <>
      <div class="head">
        <h1>Audit</h1>
        <div class="end"><Export filter={filter.value} /></div>
      </div>
      <div class="tools pairs">
        <TenantChooser value={param(at, 'tenant')} any="all tenants" />
        <TextFilter label="Script" name="name" value={param(at, 'name')} placeholder="all of the tenant" />
        <ChoiceFilter label="From" name="hours" value={param(at, 'hours')} options={ages} />
        <TextFilter label="or from the day" name="day" value={param(at, 'day')} type="date" />
        <button type="button" onClick$={() => { reload.value++; }}>Load again</button>
      </div>
      <Problem failure={failure.value} />
      {!more && entries.length === 0 && <p class="card empty">No entry matches. Each publish, rollback, value and change of a tenant appears here, with its author.</p>}
      {(more || entries.length > 0) && !failure.value && <AuditTable entries={entries} more={more && entries.length < most} seen={seen} />}
      {entries.length >= most && <p class="faint">The page shows the newest {count(most)}. Choose a filter, or export all.</p>}
    </>
  );
});

export const head: DocumentHead = { title: 'Audit' };
