import { $, component$, useComputed$, useSignal, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { caller } from '~/api/caller';
import type { Tenant } from '~/gen/proto/script/v1/script_pb';
import { useLoad } from '~/live/load';
import { Link } from '~/shell/link';
import { hrefWith } from '~/shell/query';
import { Confirm } from '~/ui/confirm';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';
import { Time } from '~/ui/time';
import { draftOf, limitFields, ownFields } from './fields';
import { TenantForm } from './form';
import { UsagePanel } from './panel';

/** OneTenant shows the settings of a tenant, and what its calls used. */
export const OneTenant = component$<{ name: string; url: Signal<URL | undefined> }>(({ name, url }) => {
  const editing = useSignal(false);
  const resetting = useSignal(false);
  const said = useSignal('');
  const changed = useSignal(0);

  const query = useComputed$(() => ({ tenant: name, edition: changed.value }));
  const { found, failure } = useLoad(
    query,
    $(async (q: { tenant: string }, signal: AbortSignal) => (await registry().getTenant({ tenant: q.tenant }, { signal })).tenant),
  );
  const saved = $((text: string) => {
    said.value = text;
    editing.value = false;
    changed.value++;
  });

  const t = found.value;
  const set = t !== undefined && t.revision > 0n && !t.deleted;
  return (
    <>
      <p><Link href="/tenants/">← All tenants</Link></p>
      <div class="head">
        <h2>{plain(name)}</h2>
        {t && !set && <span class="tag">the defaults hold</span>}
        <div class="end">
          <Link class="button" href={hrefWith('/', { tenant: name })}>Scripts</Link>
          <Link class="button" href={hrefWith('/values/', { tenant: name })}>Values</Link>
          <Link class="button" href={hrefWith('/audit/', { tenant: name })}>Audit</Link>
          {t && !editing.value && <button type="button" class="primary" onClick$={() => { editing.value = true; }}>Edit</button>}
          {set && !editing.value && <button type="button" onClick$={() => { resetting.value = true; }}>Back to defaults…</button>}
        </div>
      </div>
      {said.value && <p class="notice" role="status">{said.value}</p>}
      <Problem failure={failure.value} />
      {t && editing.value && <TenantForm key={String(t.revision)} tenant={t} onSaved$={saved} onCancel$={() => { editing.value = false; }} />}
      {t && !editing.value && <Settings tenant={t} set={set} />}
      {/* Below the settings: it would move when they come. */}
      {(t || failure.value) && <UsagePanel tenant={name} url={url} />}
      <Confirm open={resetting} title={`Back to the defaults for ${name}`} action="Remove the settings" danger onConfirm$={async () => {
        await registry().setTenant({ tenant: name, author: await caller(), expectedRevision: found.value?.revision ?? 0n });
        await saved('The settings are removed: the defaults hold.');
      }}>
        <p>The settings of the tenant are removed. Its scripts and values stay.</p>
      </Confirm>
    </>
  );
});

/** Settings shows each number, and the default where none is set. */
const Settings = ({ tenant: t, set }: { tenant: Tenant; set: boolean }) => {
  const d = draftOf(t.settings);
  const decisions = t.settings?.decisions;
  return (
    <section class="card" aria-labelledby="settings">
      <h2 id="settings">Limits and quotas</h2>
      <dl class="facts">
        <dt>Isolation</dt><dd>{d.isolation === 'process' ? 'a process of its own on each agent' : 'shared'}</dd>
        {[...ownFields, ...limitFields].filter((f) => !f.name.startsWith('limits.') || d[f.name]).map((f) => (
          <>
            <dt>{f.title}{f.name.startsWith('limits.') && ', at most'}</dt>
            <dd>{d[f.name] || <span class="faint">{f.preset}</span>}</dd>
          </>
        ))}
        <dt>Strict audit</dt><dd>{d.audit === 'strict' ? 'yes: calls whose record cannot be kept fail' : 'no'}</dd>
        <dt>Decision log</dt>
        <dd>
          {decisions ? `${Number((decisions.sample * 100).toPrecision(3))} % of the calls${decisions.errors ? ', and every call that fails' : ''}` : 'none, but for scripts that ask for it'}
          {decisions && decisions.mask.length > 0 && `; masked: ${decisions.mask.map(plain).join(', ')}`}
        </dd>
        {set && <><dt>Changed</dt><dd><Time at={t.changedAt} /> by {plain(t.author)}, revision {String(t.revision)}</dd></>}
      </dl>
    </section>
  );
};
