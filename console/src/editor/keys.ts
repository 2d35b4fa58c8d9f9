import { useVisibleTask$, type Signal } from '@builder.io/qwik';

/** useKeys publishes with Ctrl S and runs the draft with Ctrl Enter. */
export function useKeys(publishing: Signal<boolean>, run: Signal<number>): void {
  useVisibleTask$(
    ({ cleanup }) => {
      const onKey = (event: KeyboardEvent) => {
        const control = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
        if (!control || document.querySelector('dialog[open]') || !(event.key === 's' || event.key === 'Enter')) {
          return;
        }
        event.preventDefault();
        // A field reports its text when it loses the focus.
        const field = document.activeElement;
        if (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) {
          field.dispatchEvent(new Event('change', { bubbles: true }));
        }
        const wish = event.key === 's' ? () => (publishing.value = true) : () => run.value++;
        setTimeout(wish);
      };
      document.addEventListener('keydown', onKey);
      cleanup(() => document.removeEventListener('keydown', onKey));
    },
    { strategy: 'document-ready' },
  );
}
