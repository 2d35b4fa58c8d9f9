import { $, component$ } from '@builder.io/qwik';
import { create } from '@bufbuild/protobuf';
import { changeSettings, settingsOf, useBench, type Bench } from '~/editor/bench';
import { DecisionsSchema, type Decisions } from '~/gen/proto/script/v1/script_pb';
import { listOf } from '~/ui/form';
import { CheckField, Field } from './field';
import { parseDecimal, taken } from './values';

/** DecisionsForm sets which calls go to the decision log. */
export const DecisionsForm = component$(() => {
  const bench = useBench();
  const decisions = settingsOf(bench.draft.value.request).decisions;
  return (
    <fieldset>
      <legend>Decision log</legend>
      <CheckField
        label="Other records than the tenant's"
        checked={decisions !== undefined}
        hint="The masks of the tenant always hold as well."
        take$={$((on: boolean) => changeSettings(bench, { decisions: on ? create(DecisionsSchema) : undefined }))}
      />
      {decisions && (
        <>
          <div class="fields">
            <Field
              label="Share of all calls"
              value={decisions.sample === 0 ? '' : String(decisions.sample)}
              placeholder="0"
              hint="0 to 1: 0.01 is one of a hundred"
              path="settings.decisions.sample"
              take$={$((text: string) => taken(parseDecimal(text), (value) => set(bench, { sample: value ?? 0 })))}
            />
            <Field label="Masked paths" value={decisions.mask.join(', ')} placeholder="none" hint="headers.authorization, body" path="settings.decisions.mask" take$={$((text: string) => set(bench, { mask: listOf(text) }))} />
            <Field label="Fields" value={decisions.fields.join(', ')} placeholder="all" hint="error, input.headers.host" path="settings.decisions.fields" take$={$((text: string) => set(bench, { fields: listOf(text) }))} />
          </div>
          <CheckField label="Every call that fails" checked={decisions.errors} take$={$((on: boolean) => set(bench, { errors: on }))} />
        </>
      )}
    </fieldset>
  );
});

function set(bench: Bench, part: Partial<Decisions>): void {
  changeSettings(bench, { decisions: { ...(settingsOf(bench.draft.value.request).decisions ?? create(DecisionsSchema)), ...part } });
}
