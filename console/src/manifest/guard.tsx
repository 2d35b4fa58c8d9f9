import { component$, Slot } from '@builder.io/qwik';
import { useBench } from '~/editor/bench';

/** FormGuard disables forms while the YAML has problems: the YAML would overwrite their changes later. */
export const FormGuard = component$(() => {
  const bench = useBench();
  const broken = bench.broken.value !== undefined;
  return (
    <>
      {broken && (
        <p class="notice warn" role="alert">
          The YAML has problems, so this form shows what was before it.{' '}
          <button type="button" onClick$={() => (bench.view.value = 'yaml')}>Go to the YAML</button>{' '}
          <button type="button" class="plain" onClick$={() => (bench.broken.value = undefined)}>Drop that YAML</button>
        </p>
      )}
      <fieldset class="bare" disabled={broken}>
        <Slot />
      </fieldset>
    </>
  );
});
