import { $, component$, Slot, useSignal } from '@builder.io/qwik';
import { useLocation } from '@builder.io/qwik-city';
import { Bar } from '~/shell/bar';
import { Nav } from '~/shell/nav';
import { Palette } from '~/shell/palette';
import { SignedOutNotice } from '~/shell/signedout';

export default component$(() => {
  const { url } = useLocation();
  const palette = useSignal(false);
  if (url.pathname.startsWith('/signin')) {
    return <Slot />;
  }
  return (
    <div class="shell">
      <Bar openPalette$={$(() => (palette.value = true))} />
      <Nav />
      <main id="main" tabIndex={-1}>
        <SignedOutNotice />
        <Slot />
      </main>
      <Palette open={palette} />
    </div>
  );
});
