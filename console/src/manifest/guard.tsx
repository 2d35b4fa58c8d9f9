import { component$, Slot } from '@builder.io/qwik';
import { useBench } from '~/editor/bench';
import { put, yaml } from '~/editor/unfinished';

/** FormGuard disables forms while the YAML has problems: the YAML would overwrite their changes later. */
export const FormGuard = component$(() => {
  const bench = useBench();
  const broken = yaml in bench.unfinished.value;
  return (
    <>
      {broken && (
        <p class="notice warn" role="alert">
          The YAML has problems, so this form shows what was before it.{' '}
          <button type="button" onClick$={() => (bench.view.value = 'yaml')}>Go to the YAML</button>{' '}
          <button type="button" class="plain" onClick$={() => put(bench.unfinished, yaml)}>Drop that YAML</button>
        </p>
      )}
      <fieldset class="bare" disabled={broken}>
        <Slot />
      </fieldset>
    </>
  );
});
