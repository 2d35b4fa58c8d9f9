import { $, component$, useSignal, useStore, type QRL } from '@builder.io/qwik';
import { caller } from '~/api/caller';
import { registry } from '~/api/client';
import { expecting } from '~/api/expect';
import { failureOf, type Failure } from '~/api/failure';
import type { Tenant } from '~/gen/proto/script/v1/script_pb';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';
import { Time } from '~/ui/time';
import { draftOf, faultOf, limitFields, ownFields, settingsOf, type Draft, type Field } from './fields';

interface Props {
  tenant: Tenant;
  onSaved$: QRL<(said: string) => void>;
  onCancel$: QRL<() => void>;
}

/** TenantForm edits the settings of a tenant. It does not overwrite what somebody else saved meanwhile. */
export const TenantForm = component$<Props>(({ tenant, onSaved$, onCancel$ }) => {
  const draft = useStore<Draft>(draftOf(tenant.settings));
  const expected = useSignal(tenant.revision);
  const theirs = useSignal<Tenant>();
  const failure = useSignal<Failure>();
  const fault = useSignal<{ name: string; text: string }>();
  const busy = useSignal(false);

  const save = $(async () => {
    const wrong = faultOf(draft);
    fault.value = wrong && { name: wrong.field.name, text: wrong.text };
    if (wrong || busy.value) {
      return;
    }
    busy.value = true;
    failure.value = undefined;
    try {
      await registry().setTenant({ tenant: tenant.name, settings: settingsOf(draft, tenant.settings), author: await caller(), expectedRevision: expecting(expected.value) });
      await onSaved$('The settings are saved. Agents get them as they get scripts.');
    } catch (error) {
      failure.value = failureOf(error);
      if (failure.value.kind === 'CONFLICT') {
        theirs.value = (await registry().getTenant({ tenant: tenant.name }).catch(() => undefined))?.tenant;
        expected.value = theirs.value?.revision ?? 0n;
      }
    } finally {
      busy.value = false;
    }
  });

  return (
    <form class="card" preventdefault:submit onSubmit$={save} aria-label={`Settings of ${tenant.name}`}>
      <p class="faint">An empty field stands for the default.</p>
      <div class="columns">
        <label>
          Isolation
          <select name="isolation" onChange$={(_, e) => { draft.isolation = e.value; }}>
            {[['', 'default: shared'], ['shared', 'shared'], ['process', 'a process of its own']].map(([v, t]) => <option key={v} value={v} selected={draft.isolation === v}>{t}</option>)}
          </select>
        </label>
        <label>
          Calls whose record cannot be kept
          <select name="audit" onChange$={(_, e) => { draft.audit = e.value; }}>
            {[['', 'pass'], ['strict', 'fail (strict audit of all calls)']].map(([v, t]) => <option key={v} value={v} selected={draft.audit === v}>{t}</option>)}
          </select>
        </label>
      </div>
      <Numbers title="What the tenant may use" fields={ownFields} draft={draft} fault={fault.value?.name ?? failure.value?.field} />
      <Numbers title="What the limits of each script are at most" fields={limitFields} draft={draft} fault={fault.value?.name ?? failure.value?.field} />
      <label><input type="checkbox" name="coroutines" checked={draft.coroutines === 'on'} onChange$={(_, e) => { draft.coroutines = e.checked ? 'on' : ''; }} /> Scripts may use coroutines</label>
      <Decisions draft={draft} />
      {fault.value && <p class="error" role="alert">{fault.value.text}</p>}
      <Problem failure={failure.value} />
      {theirs.value && <Theirs theirs={theirs.value} draft={draft} />}
      <footer class="line-tools">
        <button type="submit" class={theirs.value ? 'danger' : 'primary'} disabled={busy.value}>{theirs.value ? 'Save mine in place of theirs' : 'Save'}</button>
        <button type="button" onClick$={onCancel$}>Cancel</button>
      </footer>
    </form>
  );
});

const Numbers = component$<{ title: string; fields: Field[]; draft: Draft; fault: string | undefined }>(({ title, fields, draft, fault }) => (
  <fieldset>
    <legend>{title}</legend>
    <div class="columns narrow">
      {fields.map((f) => (
        <label key={f.name}>
          {f.title}
          <input name={f.name} value={draft[f.name]} placeholder={f.preset} aria-invalid={fault !== undefined && fault.endsWith(f.name)} autocomplete="off" spellcheck={false} onInput$={(_, e) => { draft[f.name] = e.value; }} />
        </label>
      ))}
    </div>
  </fieldset>
));

const Decisions = component$<{ draft: Draft }>(({ draft }) => (
  <fieldset>
    <legend>Decision log, for scripts that say nothing of it</legend>
    <label><input type="checkbox" name="decisions" checked={draft.decisions === 'on'} onChange$={(_, e) => { draft.decisions = e.checked ? 'on' : ''; }} /> Record calls</label>
    {draft.decisions === 'on' && (
      <div class="columns narrow">
        <label>
          Part of the calls, from 0 to 1
          <input name="sample" type="number" min={0} max={1} step="any" value={draft.sample} onInput$={(_, e) => { draft.sample = e.value; }} />
        </label>
        <label>
          Masked paths, of all scripts
          <textarea name="mask" rows={3} spellcheck={false} placeholder="headers.authorization" value={draft.mask} onInput$={(_, e) => { draft.mask = e.value; }} />
        </label>
        <label>
          What records have; empty for all
          <textarea name="fields" rows={3} spellcheck={false} placeholder="error" value={draft.fields} onInput$={(_, e) => { draft.fields = e.value; }} />
        </label>
        <label><input type="checkbox" name="errors" checked={draft.errors === 'on'} onChange$={(_, e) => { draft.errors = e.checked ? 'on' : ''; }} /> Every call that fails</label>
      </div>
    )}
  </fieldset>
));

/** Theirs lists the fields in which the saved settings differ from the form. */
const Theirs = ({ theirs, draft }: { theirs: Tenant; draft: Draft }) => {
  const other = draftOf(theirs.settings);
  const titles = Object.fromEntries([...ownFields, ...limitFields].map((f) => [f.name, f.title]));
  const differ = Object.keys(other).filter((k) => other[k] !== (draft[k] ?? ''));
  return (
    <div class="notice warn" role="alert">
      <p>{plain(theirs.author)} changed the settings meanwhile, <Time at={theirs.changedAt} />. Nothing was overwritten. The fields that differ from yours:</p>
      <table>
        <thead><tr><th scope="col">Field</th><th scope="col">Theirs</th><th scope="col">Yours</th></tr></thead>
        <tbody>{differ.map((k) => <tr key={k}><td>{titles[k] ?? k}</td><td>{plain(other[k] || 'default')}</td><td>{plain(draft[k] || 'default')}</td></tr>)}</tbody>
      </table>
    </div>
  );
};
