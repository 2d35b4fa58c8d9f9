import { $, component$, noSerialize, useSignal, type NoSerialize, type QRL } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';
import { DiffView } from '~/release/view';
import { bytesOf, plainTextOf } from '~/ui/bytes';
import { isJSON } from '~/ui/json';
import { bytes } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Problem } from '~/ui/problem';
import { Time } from '~/ui/time';
import { put, read, type Kept } from './write';

interface Props {
  tenant: string;
  /** What is edited; undefined for a new key. */
  base: Kept | undefined;
  onSaved$: QRL<(key: string) => void>;
  onCancel$: QRL<() => void>;
}

/** Editor writes a value. If somebody else wrote it meanwhile, Editor shows both contents and overwrites nothing. */
export const Editor = component$<Props>(({ tenant, base, onSaved$, onCancel$ }) => {
  const key = useSignal(base?.value.key ?? '');
  const before = base && plainTextOf(base.content);
  const text = useSignal(before ?? '');
  const file = useSignal<NoSerialize<File>>();
  const chooser = useSignal(0);
  const note = useSignal('');
  const expected = useSignal(base?.value.revision ?? 0n);
  const theirs = useSignal<Kept>();
  const failure = useSignal<Failure>();
  const busy = useSignal(false);

  const save = $(async () => {
    if (busy.value) {
      return;
    }
    busy.value = true;
    failure.value = undefined;
    try {
      const content = file.value ? new Uint8Array(await file.value.arrayBuffer()) : bytesOf(text.value);
      await put(tenant, key.value, content, note.value.trim(), expected.value);
      await onSaved$(key.value);
    } catch (error) {
      failure.value = failureOf(error);
      if (failure.value.kind === 'CONFLICT') {
        theirs.value = await read(tenant, key.value).catch(() => undefined);
        expected.value = theirs.value?.value.revision ?? 0n;
      }
    } finally {
      busy.value = false;
    }
  });

  const wasJson = before !== undefined && isJSON(before);
  const size = file.value?.size ?? bytesOf(text.value).length;
  return (
    <form class="card" preventdefault:submit onSubmit$={save} aria-label={base ? `Edit ${base.value.key}` : 'New value'}>
      {!base && (
        <label>
          Key
          <input bind:value={key} required maxLength={200} placeholder="flags/checkout" autocomplete="off" spellcheck={false} autoFocus />
        </label>
      )}
      <label>
        Content
        <textarea bind:value={text} rows={12} spellcheck={false} disabled={file.value !== undefined} placeholder={base && before === undefined ? 'The present content is not text. What you type replaces it.' : ''} />
      </label>
      <label>
        Or the content of a file
        <input key={chooser.value} type="file" onChange$={(_, input) => (file.value = input.files?.[0] ? noSerialize(input.files[0]) : undefined)} />
      </label>
      <p class="faint" role="status">
        {bytes(size)} of at most 1 MiB.
        {wasJson && !file.value && !isJSON(text.value) && <span class="warn"> The content was JSON, and is not any more: scripts that decode it will fail.</span>}
      </p>
      <label>
        Note
        <input bind:value={note} maxLength={1000} placeholder="why" autocomplete="off" />
      </label>
      <Problem failure={failure.value} />
      {theirs.value && <Theirs theirs={theirs.value} mine={file.value ? undefined : text.value} isNew={!base} />}
      <footer class="line-tools">
        <button type="submit" class={theirs.value ? 'danger' : 'primary'} disabled={busy.value}>{theirs.value ? 'Save mine in place of theirs' : 'Save'}</button>
        {theirs.value && plainTextOf(theirs.value.content) !== undefined && (
          <button
            type="button"
            onClick$={() => {
              text.value = plainTextOf(theirs.value!.content) ?? '';
              file.value = undefined;
              chooser.value++; // an empty one
            }}
          >
            Go on from theirs
          </button>
        )}
        <button type="button" onClick$={onCancel$}>Cancel</button>
      </footer>
    </form>
  );
});

/** Theirs shows what somebody else wrote meanwhile, and the difference. */
const Theirs = ({ theirs: { value, content }, mine, isNew }: { theirs: Kept; mine: string | undefined; isNew: boolean }) => {
  const text = plainTextOf(content);
  return (
    <div class="notice warn" role="alert">
      <p>
        {isNew ? 'The key exists already: ' : 'Somebody changed the value meanwhile: '}
        {plain(value.author)} wrote {bytes(value.size)}, <Time at={value.changedAt} />, revision {String(value.revision)}. Nothing was overwritten. Below, − is theirs and + is yours.
      </p>
      {text === undefined || mine === undefined ? <p>The contents are not text, so the console cannot compare them.</p> : <DiffView before={text} after={mine} label="Theirs and mine" />}
    </div>
  );
};
