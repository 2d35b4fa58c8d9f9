import { $, component$, Slot, useSignal, useTask$, type QRL, type Signal } from '@builder.io/qwik';
import { failureOf, text } from '~/api/failure';
import { fieldsOf } from './form';
import { Modal } from './modal';

interface Props {
  open: Signal<boolean>;
  title: string;
  /** On the button, such as "Roll back". */
  action: string;
  danger?: boolean;
  /** Ask for a reason, which the history keeps. */
  reason?: boolean;
  /** A text that the person types first, for something that cannot be undone. */
  typed?: string;
  /** An error keeps the dialog open. */
  onConfirm$: QRL<(reason: string) => Promise<void>>;
}

/** Confirm asks before something happens. Its slot explains what. */
export const Confirm = component$<Props>(({ open, title, action, danger, reason, typed, onConfirm$ }) => {
  const name = useSignal('');
  const error = useSignal('');
  const busy = useSignal(false);

  useTask$(({ track }) => {
    track(() => open.value);
    error.value = ''; // It was about what the person wanted before.
  });

  const submit = $(async (_: Event, form: HTMLFormElement) => {
    const { reason: why = '', name: written } = fieldsOf(form);
    if (busy.value || (typed !== undefined && written !== typed)) {
      return;
    }
    busy.value = true;
    error.value = '';
    try {
      await onConfirm$(why);
      form.reset();
      name.value = '';
      open.value = false;
    } catch (e) {
      error.value = text(failureOf(e));
    } finally {
      busy.value = false;
    }
  });

  return (
    <Modal open={open} title={title}>
      <form preventdefault:submit onSubmit$={submit}>
        <Slot />
        {reason && (
          <label>
            Reason
            <input name="reason" required maxLength={1000} autocomplete="off" autoFocus />
          </label>
        )}
        {typed && (
          <label>
            Type <code>{typed}</code> to confirm
            <input name="name" onInput$={(_, input) => (name.value = input.value)} autocomplete="off" spellcheck={false} />
          </label>
        )}
        {error.value && <p class="error" role="alert">{error.value}</p>}
        <footer>
          <button type="button" onClick$={() => (open.value = false)}>Cancel</button>
          <button type="submit" class={danger ? 'danger' : 'primary'} disabled={busy.value || (typed !== undefined && name.value !== typed)}>
            {action}
          </button>
        </footer>
      </form>
    </Modal>
  );
});
