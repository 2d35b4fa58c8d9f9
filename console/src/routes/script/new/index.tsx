import { $, component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { create } from '@bufbuild/protobuf';
import { bytesOf } from '~/ui/bytes';
import { keptDraft } from '~/editor/kept';
import { begin, type Opened } from '~/editor/open';
import { fill, templates } from '~/editor/templates';
import { Workbench } from '~/editor/workbench';
import { PublishRequestSchema, type ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import { SettingsSchema } from '~/gen/proto/script/v1/script_pb';
import { nameOf } from '~/script/name';
import { useUrl } from '~/shell/url';
import { fieldsOf } from '~/ui/form';

const label = '[a-z0-9]([a-z0-9\\-]{0,61}[a-z0-9])?';

export default component$(() => {
  const url = useUrl();
  const tenant = useSignal('');
  const name = useSignal('');
  const template = useSignal(templates[0]!.id);
  const opened = useSignal<Opened>();
  const status = useSignal<ScriptStatus>();

  useVisibleTask$(
    ({ track }) => {
      const wish = nameOf(track(() => url.value));
      tenant.value ||= wish.tenant;
      name.value ||= wish.name;
    },
    { strategy: 'document-ready' },
  );

  const write = $((_: Event, form: HTMLFormElement) => {
    const fields = fieldsOf(form);
    tenant.value = fields['tenant'] ?? '';
    name.value = fields['name'] ?? '';
    const before = keptDraft(`${tenant.value}/${name.value}`);
    if (before) { // The person was on another page meanwhile.
      opened.value = before;
      return;
    }
    const t = templates.find((t) => t.id === fields['template']) ?? templates[0]!;
    const settings = create(SettingsSchema, { config: bytesOf(t.config), library: t.library ?? false });
    opened.value = begin(
      create(PublishRequestSchema, { tenant: tenant.value, name: name.value, source: bytesOf(fill(t, name.value)), engine: t.engine, entrypoint: t.entrypoint, enabled: true, pin: 0n, settings }),
    );
  });

  if (opened.value) {
    return (
      <>
        <div class="head">
          <h1>{tenant.value}/{name.value}</h1>
          <span class="tag accent">new</span>
        </div>
        <Workbench opened={opened.value} script={status} />
      </>
    );
  }
  return (
    <>
      <div class="head"><h1>New script</h1></div>
      <form class="card narrow" preventdefault:submit onSubmit$={write}>
        <label class="field">
          Tenant
          <input name="tenant" value={tenant.value} required pattern={label} maxLength={63} placeholder="acme" autocomplete="off" spellcheck={false} />
          <span class="faint">Who the script belongs to.</span>
        </label>
        <label class="field">
          Name
          <input name="name" value={name.value} required pattern={label} maxLength={63} placeholder="route" autocomplete="off" spellcheck={false} />
          <span class="faint">Lower-case letters, digits and hyphens. Callers use it, and it cannot change.</span>
        </label>
        <fieldset>
          <legend>Begin with</legend>
          {templates.map((t) => (
            <label key={t.id}><input type="radio" name="template" value={t.id} checked={template.value === t.id} onChange$={() => (template.value = t.id)} /> {t.title}</label>
          ))}
        </fieldset>
        <button type="submit" class="primary">Write it</button>
      </form>
    </>
  );
});

export const head: DocumentHead = { title: 'New script' };
