import { $, component$, useComputed$, useSignal } from '@builder.io/qwik';
import { useNavigate, type DocumentHead } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import { usePages } from '~/live/pages';
import { TextFilter } from '~/shell/filters';
import { hrefWith, param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { TenantChooser } from '~/tenants/chooser';
import { Problem } from '~/ui/problem';
import { useWindow } from '~/ui/window';
import { Editor } from '~/values/editor';
import { Quota, ValueTable, type Values } from '~/values/table';
import { OneValue } from '~/values/value';

const page = 500;

export default component$(() => {
  const url = useUrl();
  const seen = useWindow();
  const adding = useSignal(false);
  const query = useComputed$(() => {
    const tenant = param(url.value, 'tenant');
    return tenant && !param(url.value, 'key') ? { tenant, prefix: param(url.value, 'prefix') } : undefined;
  });
  const { list, failure } = usePages(
    query,
    seen,
    $(async (q: { tenant: string; prefix: string }, have: Values | undefined, signal: AbortSignal): Promise<Values> => {
      const a = await registry().listValues({ ...q, pageSize: page, pageToken: have?.next ?? '' }, { signal });
      return {
        items: [...(have?.items ?? []), ...a.values.filter((v) => !v.deleted)],
        next: a.nextPageToken,
        used: Number(a.usedBytes),
        quota: Number(a.quotaBytes),
        unreadable: [...(have?.unreadable ?? []), ...a.unreadable],
      };
    }),
  );
  const navigate = useNavigate();
  const tenant = param(url.value, 'tenant');
  const key = param(url.value, 'key');
  const prefix = param(url.value, 'prefix');

  const saved = $(async (added: string) => {
    adding.value = false;
    await navigate(hrefWith('/values/', { tenant, key: added }));
  });
  const empty = list.value?.items.length === 0 && !list.value.next;
  return (
    <>
      <div class="head">
        <h1>Values</h1>
        <div class="end">{tenant && !key && !adding.value && <button type="button" class="primary" onClick$={() => { adding.value = true; }}>New value</button>}</div>
      </div>
      <div class="tools">
        <TenantChooser value={tenant} clears={['prefix', 'key']} />
        {tenant && !key && <TextFilter label="Keys that begin with" name="prefix" value={prefix} placeholder="flags/" />}
      </div>
      <Problem failure={failure.value} />
      {url.value && !tenant && (
        <div class="card empty">
          <h2>Choose a tenant</h2>
          <p>Values are a tenant's own data, such as flags and lists. They are pushed to all agents as scripts are, and scripts read them:</p>
          <pre>local flags = kv.json("flags/checkout")</pre>
        </div>
      )}
      {tenant && key && <OneValue key={`${tenant}/${key}`} tenant={tenant} name={key} />}
      {tenant && !key && adding.value && <Editor tenant={tenant} base={undefined} onSaved$={saved} onCancel$={() => { adding.value = false; }} />}
      {tenant && !key && !failure.value && (
        <>
          {list.value && <Quota list={list.value} />}
          {empty ? (
            <p class="card empty">{prefix ? `No key begins with ${prefix}.` : `${tenant} has no values yet. Add one here, or run: scriptctl kv put ${tenant}/KEY VALUE`}</p>
          ) : (
            <ValueTable list={list.value} seen={seen} />
          )}
        </>
      )}
    </>
  );
});

export const head: DocumentHead = { title: 'Values' };
