import { $, component$, useSignal, type QRL, type Signal } from '@builder.io/qwik';
import { problemOf } from '~/ui/json';
import { fieldsOf, withField, type Fields, type Saved } from './request';

interface Props {
  /** The argument of the call, in JSON. */
  json: Signal<string>;
  saved: Saved[];
  /** Reads the requests of calls that agents have recorded. */
  onRecorded$: QRL<() => Promise<void>>;
}

/** RequestEditor edits the request of a call: as a form, or as JSON. */
export const RequestEditor = component$<Props>(({ json, saved, onRecorded$ }) => {
  const asJSON = useSignal(false);
  const fields = fieldsOf(json.value);
  const problem = problemOf(json.value);
  const showForm = !asJSON.value && fields !== undefined;
  const groups = (['Tests', 'Tried', 'Recorded'] as const).filter((g) => saved.some((s) => s.group === g));
  return (
    <fieldset>
      <legend>Request</legend>
      <div class="tools">
        {saved.length > 0 && (
          <label>
            Start from
            <select
              value=""
              onChange$={(_, select) => {
                json.value = saved.find((s) => s.id === select.value)?.json ?? json.value;
                select.value = '';
              }}
            >
              <option value="">a saved request</option>
              {groups.map((group) => (
                <optgroup key={group} label={group}>
                  {saved.filter((s) => s.group === group).map((s) => <option key={s.id} value={s.id}>{s.title}</option>)}
                </optgroup>
              ))}
            </select>
          </label>
        )}
        <button type="button" class="plain" onClick$={onRecorded$}>Read recorded requests</button>
        <button type="button" class="plain" aria-pressed={!showForm} disabled={fields === undefined} onClick$={() => (asJSON.value = !asJSON.value)}>As JSON</button>
      </div>
      {showForm ? (
        <RequestForm json={json} fields={fields} />
      ) : (
        <label class="field">
          Argument of the call, in JSON
          <textarea rows={10} value={json.value} onInput$={(_, area) => (json.value = area.value)} spellcheck={false} aria-invalid={problem ? 'true' : undefined}></textarea>
          {problem && <span class="bad" role="alert">This is not JSON yet: {problem}</span>}
        </label>
      )}
    </fieldset>
  );
});

const RequestForm = component$(({ json, fields }: { json: Signal<string>; fields: Fields }) => {
  const set = $((name: keyof Fields, text: string) => (json.value = withField(json.value, name, text)));
  return (
    <>
      <div class="fields tight">
        <label class="field">
          Method
          <input value={fields.method} onChange$={(_, input) => set('method', input.value.trim().toUpperCase())} spellcheck={false} autocomplete="off" />
        </label>
        <label class="field">Host<input value={fields.host} onChange$={(_, input) => set('host', input.value.trim())} spellcheck={false} autocomplete="off" /></label>
        <label class="field">Path<input value={fields.path} onChange$={(_, input) => set('path', input.value)} spellcheck={false} autocomplete="off" /></label>
        <label class="field">Query<input value={fields.query} onChange$={(_, input) => set('query', input.value)} placeholder="id=7" spellcheck={false} autocomplete="off" /></label>
      </div>
      <label class="field">
        Headers, one a line
        <textarea rows={3} value={fields.headers} onChange$={(_, area) => set('headers', area.value)} placeholder="x-user: ann" spellcheck={false}></textarea>
      </label>
      <label class="field">
        Body
        <textarea rows={2} value={fields.body} onChange$={(_, area) => set('body', area.value)} placeholder="none" spellcheck={false}></textarea>
      </label>
    </>
  );
});
