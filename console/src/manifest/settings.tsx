import { $, component$ } from '@builder.io/qwik';
import { change, changeSettings, settingsOf, useBench } from '~/editor/bench';
import { ConfigForm } from './config';
import { DecisionsForm } from './decisions';
import { CheckField, Field } from './field';
import { FormGuard } from './guard';
import { LimitsForm } from './limits';
import { OnErrorForm } from './onerror';
import { EngineForm } from './engine';
import { TriggerForm } from './trigger';
import { formatWhole, parseSmall, parseWhole, taken } from './values';

/** SettingsForm has all settings but the tests and the rollout. */
export const SettingsForm = component$(() => {
  const { library } = settingsOf(useBench().draft.value.request);
  return (
    <FormGuard>
      <ConfigForm />
      {!library && <TriggerForm />}
      {!library && <OnErrorForm />}
      <LimitsForm />
      <EngineForm />
      <DecisionsForm />
      <ScriptForm />
    </FormGuard>
  );
});

/** ScriptForm has what belongs to the script and not to a version. */
const ScriptForm = component$(() => {
  const bench = useBench();
  const { request } = bench.draft.value;
  const settings = settingsOf(request);
  return (
    <fieldset>
      <legend>Script</legend>
      <CheckField
        label="Enabled"
        checked={request.enabled ?? true}
        hint="A script that is not enabled stays on the agents, ready, and answers DISABLED."
        take$={$((on: boolean) => change(bench, { enabled: on }))}
      />
      <CheckField
        label="Library"
        checked={settings.library}
        hint="Other scripts require it, and nobody calls it."
        take$={$((on: boolean) => {
          change(bench, { entrypoint: on ? '' : 'handle' });
          changeSettings(bench, { library: on });
        })}
      />
      <div class="fields">
        <Field
          label="Version that runs"
          value={formatWhole(request.pin ?? 0n)}
          placeholder="the latest"
          hint="A number keeps that version running, whatever is published."
          path="pin"
          take$={$((text: string) => taken(parseWhole(text), (value) => change(bench, { pin: value })))}
        />
        <Field
          label="Versions that are retained"
          value={formatWhole(settings.historyLimit)}
          placeholder="10"
          hint="1 to 50"
          path="settings.historyLimit"
          take$={$((text: string) => taken(parseSmall(text), (value) => changeSettings(bench, { historyLimit: value })))}
        />
      </div>
    </fieldset>
  );
});
