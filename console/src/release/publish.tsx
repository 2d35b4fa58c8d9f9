import { $, component$, useComputed$, useSignal, useTask$, type NoSerialize, noSerialize, type QRL, type Signal } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';
import type { Draft } from '~/editor/draft';
import type { PublishRequest, PublishResponse } from '~/gen/proto/registry/v1/registry_pb';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { fieldsOf } from '~/ui/form';
import { Modal } from '~/ui/modal';
import { Problem } from '~/ui/problem';
import { check, isConflict, type Checked } from './check';
import { conflictOf, releaseOf, type Conflict } from './conflict';
import { ConflictView } from './conflictview';
import { send } from './send';
import { unansweredOf } from './sent';
import { Verdict } from './verdict';

/** Published gets the answer to a request. A repeated one has the release as it is now, and not as the publish left it. */
type Published = QRL<(response: PublishResponse, request: PublishRequest, repeated: boolean) => void>;

interface Props {
  open: Signal<boolean>;
  /** A signal: what a page shows is a moment behind it, and the last keys count. */
  draft: Signal<Draft>;
  /** The fields with text that the draft does not have; empty for none. */
  unfinished: Signal<string>;
  onDrop$: QRL<() => void>;
  onPublished$: Published;
  /** Somebody else changed the script: request has both changes, and revision is the release that it was merged with. It closes the dialog. */
  onMerged$: QRL<(request: PublishRequest, revision: bigint) => Promise<void>>;
}

/** PublishDialog publishes a draft. First it shows what changes, and whether the registry accepts it. */
export const PublishDialog = component$<Props>(({ open, draft, unfinished, onDrop$, onPublished$, onMerged$ }) => {
  const before = useBefore(draft);
  const checked = useSignal<Checked>();
  const conflict = useSignal<Conflict>();
  const failure = useSignal<Failure>();
  const again = useSignal(0); // grows when the draft has to be checked once more

  const load = $(async (signal: AbortSignal) => {
    const sent = unansweredOf(draft.value.request);
    if (sent) { // A check would take what it may have changed for somebody else's change.
      checked.value = sent.checked;
      return;
    }
    try {
      const now = draft.value;
      const answer = await check(now, signal);
      const found = answer.conflict ? await conflictOf(now, before.value, signal) : undefined;
      if (signal.aborted) {
        return;
      }
      if (found) {
        conflict.value = found;
      } else {
        checked.value = answer;
      }
    } catch (e) {
      if (!signal.aborted) {
        failure.value = failureOf(e);
      }
    }
  });

  useTask$(({ track, cleanup }) => {
    checked.value = conflict.value = failure.value = undefined;
    const shown = track(() => open.value) && !track(() => unfinished.value);
    track(() => draft.value.request);
    track(() => again.value);
    if (!shown) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    // Not awaited: a task that waits would hold up the page.
    void load(abort.signal);
  });

  const finish = $(async (response: PublishResponse, request: PublishRequest, repeated: boolean) => {
    open.value = false;
    await onPublished$(response, request, repeated);
  });

  return (
    <Modal open={open} title={conflict.value ? 'Somebody else changed the script' : 'Publish'} wide>
      {conflict.value && (
        <ConflictView
          conflict={conflict.value}
          onCancel$={() => { open.value = false; }}
          onMerged$={async (request, revision) => {
            try {
              await onMerged$(request, revision);
            } catch (e) {
              failure.value = failureOf(e);
            }
          }}
        />
      )}
      {/* The form stays in the page, so that it keeps the note during a conflict. */}
      <div hidden={conflict.value !== undefined}>
        {unfinished.value && (
          <p class="notice warn" role="alert">
            The draft does not have the text of {unfinished.value}. Finish it before you publish, or drop it.{' '}
            <button type="button" onClick$={onDrop$}>Drop it</button>
          </p>
        )}
        <PublishForm draft={draft} checked={checked.value} open={open} onPublished$={finish} onConflict$={() => { again.value++; }} />
      </div>
      <Problem failure={failure.value} />
    </Modal>
  );
});

/** useBefore keeps the release that the draft began with. The registry keeps no old rollout plans, so later it is too late to read it. */
function useBefore(draft: Signal<Draft>): Signal<NoSerialize<Release> | undefined> {
  const before = useSignal<NoSerialize<Release>>();
  const base = useComputed$(() => draft.value.baseRevision); // The draft changes with each key.
  useTask$(({ track, cleanup }) => {
    const revision = track(() => base.value);
    if (revision === 0n || before.value?.revision === revision) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    const { tenant, name } = draft.value.request;
    releaseOf({ tenant, name }, abort.signal).then(
      (release) => {
        before.value = release?.revision === revision ? noSerialize(release) : undefined;
      },
      () => {
        // Without it, a conflict view asks about the rollout plan.
      },
    );
  });
  return before;
}

interface FormProps {
  draft: Signal<Draft>;
  checked: Checked | undefined;
  open: Signal<boolean>;
  onPublished$: Published;
  onConflict$: QRL<() => void>;
}

const PublishForm = component$<FormProps>(({ draft, checked, open, onPublished$, onConflict$ }) => {
  const busy = useSignal(false);
  const failure = useSignal<Failure>();

  useTask$(({ track }) => {
    track(() => open.value);
    failure.value = undefined;
  });

  const submit = $(async (_: Event, form: HTMLFormElement) => {
    if (busy.value || checked?.request !== draft.value.request) { // The person publishes what they saw.
      return;
    }
    busy.value = true;
    failure.value = undefined;
    const { note = '', hold, owner } = fieldsOf(form);
    const sent = draft.value;
    const { request } = sent;
    const repeated = unansweredOf(request) !== undefined;
    try {
      const response = await send(sent, checked, { note, liftHold: hold !== undefined, force: owner !== undefined });
      await onPublished$(response, request, repeated);
      form.reset();
    } catch (e) {
      const f = failureOf(e);
      failure.value = f;
      if (isConflict(f)) {
        await onConflict$();
        failure.value = { ...f, field: '', message: 'The script moved on while you wrote. It was checked again: publish it now.' };
      }
    } finally {
      busy.value = false;
    }
  });

  const release = checked?.release;
  return (
    <form preventdefault:submit onSubmit$={submit}>
      <label>
        What changes, and why?
        <input name="note" maxLength={500} autocomplete="off" autoFocus placeholder="Carts go to their own pool" />
      </label>
      {release?.owner && (
        <label>
          <input type="checkbox" name="owner" /> Change it although {release.owner} owns it (needs the role admin)
        </label>
      )}
      {release?.hold && (
        <label>
          <input type="checkbox" name="hold" /> Release the hold of {release.hold.author} (needs the role release)
        </label>
      )}
      <div class="verdict">{checked ? <Verdict checked={checked} /> : <p class="faint" role="status">The registry checks the draft…</p>}</div>
      <Problem failure={failure.value} />
      <footer>
        <button type="button" onClick$={() => { open.value = false; }}>Cancel</button>
        <button type="submit" class="primary" disabled={busy.value || !checked}>{busy.value ? 'Publishing…' : 'Publish'}</button>
      </footer>
    </form>
  );
});
