import { $, component$, useComputed$, useSignal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { failureOf } from '~/api/failure';
import { useLoad } from '~/live/load';
import { Link } from '~/shell/link';
import { hrefWith } from '~/shell/query';
import { Confirm } from '~/ui/confirm';
import { bytes } from '~/ui/number';
import { plain } from '~/ui/plain';
import { present } from '~/ui/present';
import { Problem } from '~/ui/problem';
import { Time } from '~/ui/time';
import { Editor } from './editor';
import { History } from './history';
import { Shown } from './shown';
import { read, remove, rollBack, type Kept } from './write';

/** OneValue shows a key with its history. It loads the content on request only, because it can be secret. */
export const OneValue = component$<{ tenant: string; name: string }>(({ tenant, name }) => {
  const content = useSignal<Kept>();
  const editing = useSignal(false);
  const deleting = useSignal(false);
  const said = useSignal('');
  const changed = useSignal(0);

  const query = useComputed$(() => ({ key: name, edition: changed.value }));
  const { found: history, failure } = useLoad(
    query,
    $(async ({ key }: { key: string }, signal: AbortSignal) => (await registry().getValueHistory({ tenant, key }, { signal })).history),
  );

  const load = $(async (edit: boolean) => {
    failure.value = undefined;
    try {
      content.value = await read(tenant, name);
      editing.value = edit && content.value !== undefined;
    } catch (error) {
      failure.value = failureOf(error);
    }
  });
  const done = $((text: string) => {
    said.value = text;
    content.value = undefined;
    editing.value = false;
    changed.value++;
  });
  const undo = $(async () => {
    try {
      await rollBack(tenant, name, 0n, 'undo of a delete', history.value?.lines[0]?.revision ?? 0n);
      await done(`${name} is back.`);
    } catch (error) {
      failure.value = failureOf(error);
    }
  });

  const shown = present(content.value);
  const last = history.value?.lines[0];
  const gone = last !== undefined && last.version === 0n;
  return (
    <>
      <p><Link href={hrefWith('/values/', { tenant })}>← Values of {tenant}</Link></p>
      <div class="head">
        <h2 class="mono">{plain(name)}</h2>
        {gone && <span class="tag bad">deleted</span>}
        <div class="end">
          {last && !gone && !editing.value && (
            <>
              <button type="button" onClick$={() => (content.value ? (content.value = undefined) : load(false))}>{content.value ? 'Hide content' : 'Show content'}</button>
              <button type="button" class="primary" onClick$={() => load(true)}>Edit</button>
              <button type="button" class="danger" onClick$={() => { deleting.value = true; }}>Delete…</button>
            </>
          )}
          {gone && <button type="button" onClick$={undo}>Bring it back</button>}
        </div>
      </div>
      {said.value && <p class="notice" role="status">{said.value}{gone && <> <button type="button" class="link" onClick$={undo}>Undo</button></>}</p>}
      <Problem failure={failure.value} />
      {last && (
        <p class="summary">
          {!gone && <span>version {String(last.version)}, {bytes(last.size)}</span>}
          <span class="faint">{plain(last.change)} by {plain(last.author)}, <Time at={last.time} /></span>
        </p>
      )}
      {shown && !editing.value && <Shown content={shown.content} />}
      {content.value && editing.value && (
        <Editor tenant={tenant} base={content.value} onSaved$={() => done(`${name} is saved.`)} onCancel$={() => { editing.value = false; content.value = undefined; }} />
      )}
      {history.value && !editing.value && <History history={history.value} onChanged$={done} />}
      <Confirm open={deleting} title={`Delete ${name}`} action="Delete" danger reason onConfirm$={async (why) => {
        await remove(tenant, name, why, history.value?.lines[0]?.revision ?? 0n);
        await done(`${name} is deleted.`);
      }}>
        <p>Scripts on all agents find no value for the key any more. You can bring it back from its history.</p>
      </Confirm>
    </>
  );
});
