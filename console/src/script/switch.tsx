import { $, component$, useSignal } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { setEnabled } from '~/release/actions';
import { Problem } from '~/ui/problem';
import type { Name } from './name';

const undoFor = 30_000;

/** Switch enables or disables the script at once, and offers to undo it. */
export const Switch = component$(({ name, release }: { name: Name; release: Release }) => {
  const done = useSignal<'' | 'Enabled.' | 'Disabled.'>('');
  const failure = useSignal<Failure>();
  const busy = useSignal(false);
  const timer = useSignal(0);
  const next = !release.enabled;

  const set = $(async (enabled: boolean, force: boolean, undo: boolean) => {
    if (busy.value) {
      return;
    }
    busy.value = true;
    failure.value = undefined;
    try {
      await setEnabled(name, enabled, undo ? 'undone' : '', force);
      done.value = undo ? '' : enabled ? 'Enabled.' : 'Disabled.';
      clearTimeout(timer.value);
      timer.value = window.setTimeout(() => (done.value = ''), undoFor);
    } catch (e) {
      failure.value = failureOf(e);
    } finally {
      busy.value = false;
    }
  });

  return (
    <>
      {failure.value && (
        <div class="aside">
          <Problem failure={failure.value} />
          {release.owner && failure.value.field === 'owner' && (
            <button type="button" onClick$={() => set(next, true, false)}>{next ? 'Enable' : 'Disable'} it past its owner</button>
          )}
        </div>
      )}
      <span role="status">
        {done.value && (
          <>
            {done.value} <button type="button" class="link" disabled={busy.value} onClick$={() => set(done.value === 'Disabled.', !!release.owner, true)}>Undo</button>
          </>
        )}
      </span>
      {!done.value && <button type="button" disabled={busy.value} onClick$={() => set(next, false, false)}>{next ? 'Enable' : 'Disable'}</button>}
    </>
  );
});
