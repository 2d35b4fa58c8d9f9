import { component$, useSignal } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { most, useEntries } from '~/audit/entries';
import { Export } from '~/audit/export';
import { ages } from '~/audit/pages';
import { AuditTable } from '~/audit/table';
import { ChoiceFilter, TextFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { TenantChooser } from '~/tenants/chooser';
import { count } from '~/ui/number';
import { Problem } from '~/ui/problem';
import { rowHeight } from '~/ui/rows';
import { useWindow } from '~/ui/window';

export default component$(() => {
  const url = useUrl();
  const seen = useWindow(rowHeight);
  const reload = useSignal(0);
  const { entries, more, filter, failure } = useEntries(url, seen, reload);
  const at = url.value;
  const none = entries.value?.length === 0 && !more.value;
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
      {none && <p class="card empty">Nobody has written anything like this. Each publish, rollback, value and change of a tenant appears here, with who did it.</p>}
      {!none && !failure.value && <AuditTable entries={entries.value ?? []} more={!entries.value || (more.value && entries.value.length < most)} seen={seen} />}
      {(entries.value?.length ?? 0) >= most && <p class="faint">The page shows the newest {count(most)}. Choose a filter, or export all.</p>}
    </>
  );
});

export const head: DocumentHead = { title: 'Audit' };
