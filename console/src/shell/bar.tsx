import { $, component$, useSignal, useVisibleTask$, type QRL } from '@builder.io/qwik';
import { goToSignIn } from '~/api/client';
import { session, signOut } from '~/api/session';
import { Link } from './link';

/** Bar is at the top of each page. */
export const Bar = component$(({ openPalette$ }: { openPalette$: QRL<() => void> }) => {
  const caller = useSignal('');

  useVisibleTask$(async () => {
    try {
      const now = await session();
      caller.value = now.caller ?? '';
      if (!now.signedIn) {
        goToSignIn();
      }
    } catch {
      // The page shows the error.
    }
  });

  return (
    <header class="bar">
      <a class="skip" href="#main">Skip to the page</a>
      <Link href="/" class="brand">Scriptorium</Link>
      <button type="button" class="find" onClick$={openPalette$}>
        <span>Go to a script or page</span> <kbd>Ctrl K</kbd>
      </button>
      <details class="menu">
        <summary>{caller.value || 'Account'}</summary>
        <div class="sheet">
          <ThemeChoice />
          <button type="button" onClick$={$(() => signOut())}>Sign out</button>
        </div>
      </details>
    </header>
  );
});

const ThemeChoice = component$(() => {
  const theme = useSignal('system');

  useVisibleTask$(() => {
    theme.value = document.documentElement.dataset.theme ?? 'system';
  });

  const choose = $((_: Event, select: HTMLSelectElement) => {
    theme.value = select.value;
    const root = document.documentElement;
    if (theme.value === 'system') {
      delete root.dataset.theme;
      localStorage.removeItem('theme');
    } else {
      root.dataset.theme = theme.value;
      localStorage.setItem('theme', theme.value);
    }
  });

  return (
    <label>
      Theme
      <select value={theme.value} onChange$={choose}>
        <option value="system">As the system</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
});
