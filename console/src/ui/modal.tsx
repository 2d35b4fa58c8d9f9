import { $, component$, Slot, useSignal, useTask$, type Signal } from '@builder.io/qwik';

/**
 * Modal is a dialog that open shows. Escape closes it, and the browser keeps the focus in it. Its content stays in the page:
 * the browser looks for autofocus when the dialog opens.
 */
export const Modal = component$(({ open, title, wide }: { open: Signal<boolean>; title: string; wide?: boolean }) => {
  const dialog = useSignal<HTMLDialogElement>();

  useTask$(({ track }) => {
    const show = track(() => open.value);
    const element = track(() => dialog.value);
    if (show && element && !element.open) {
      element.showModal();
    } else if (!show && element?.open) {
      element.close();
    }
  });
  // The event comes a moment after the dialog closed. Somebody may have opened it again meanwhile.
  const onClose = $((_: Event, element: HTMLDialogElement) => {
    open.value &&= element.open;
  });

  return (
    <dialog ref={dialog} class={{ modal: true, wide }} aria-label={title} onClose$={onClose}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick$={() => (open.value = false)}>✕</button>
      </header>
      <Slot />
    </dialog>
  );
});
