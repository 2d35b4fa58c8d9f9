import { component$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { TenantChooser } from '~/tenants/chooser';
import { TenantList } from '~/tenants/list';
import { OneTenant } from '~/tenants/one';

export default component$(() => {
  const url = useUrl();
  const tenant = param(url.value, 'tenant');
  return (
    <>
      <div class="head"><h1>Tenants</h1></div>
      <div class="tools"><TenantChooser value={tenant} any="choose one" /></div>
      {url.value && (tenant ? <OneTenant key={tenant} name={tenant} url={url} /> : <TenantList />)}
    </>
  );
});

export const head: DocumentHead = { title: 'Tenants' };
