import { component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { signedOut } from '~/api/client';

/** SignedOutNotice shows that the session is over, if something keeps the page open: drafts are nowhere else. */
export const SignedOutNotice = component$(() => {
  const over = useSignal(false);
  useVisibleTask$(
    ({ cleanup }) => {
      // What keeps the page open prevents the event's default, perhaps after this.
      const end = (event: Event) => queueMicrotask(() => (over.value ||= event.defaultPrevented));
      // The next call tells whether the person signed in.
      const back = () => {
        over.value = false;
      };
      addEventListener(signedOut, end);
      addEventListener('focus', back);
      cleanup(() => {
        removeEventListener(signedOut, end);
        removeEventListener('focus', back);
      });
    },
    { strategy: 'document-ready' },
  );
  return over.value ? (
    <p class="notice warn" role="alert">
      Your session ended. <a href="/signin/" target="_blank">Sign in in another tab</a>, then go on here: your changes are still in this tab.
    </p>
  ) : null;
});
