import { $, component$, useSignal } from '@builder.io/qwik';
import { useNavigate, type DocumentHead } from '@builder.io/qwik-city';
import { TextFilter } from '~/shell/filters';
import { hrefWith, param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { TenantChooser } from '~/tenants/chooser';
import { Problem } from '~/ui/problem';
import { rowHeight } from '~/ui/rows';
import { useWindow } from '~/ui/window';
import { Editor } from '~/values/editor';
import { useValues } from '~/values/list';
import { Quota, ValueTable } from '~/values/table';
import { OneValue } from '~/values/value';

export default component$(() => {
  const url = useUrl();
  const seen = useWindow(rowHeight);
  const changed = useSignal(0);
  const adding = useSignal(false);
  const { list, failure } = useValues(url, seen, changed);
  const navigate = useNavigate();
  const tenant = param(url.value, 'tenant');
  const key = param(url.value, 'key');
  const prefix = param(url.value, 'prefix');

  const saved = $(async (added: string) => {
    adding.value = false;
    await navigate(hrefWith('/values/', { tenant, key: added }));
  });
  const empty = list.value?.values.length === 0 && !list.value.next;
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
