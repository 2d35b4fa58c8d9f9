import { $, component$ } from '@builder.io/qwik';
import { create } from '@bufbuild/protobuf';
import { change, changePart, changeSettings, settingsOf, useBench, type Bench } from '~/editor/bench';
import { RegoOptionsSchema, WasmOptionsSchema, type RegoOptions } from '~/gen/proto/script/v1/script_pb';
import { CheckField, Field, SelectField } from './field';

const inputs = [
  { value: '', title: 'The request' },
  { value: 'envoy', title: "As Envoy's external authorization" },
];
const targets = [
  { value: '', title: 'WebAssembly, if the policy allows it' },
  { value: 'wasm', title: 'WebAssembly' },
  { value: 'interpreted', title: 'Interpreted' },
];
const names: Record<string, string> = { lua: 'Lua', '': 'Lua', wasm: 'WebAssembly', rego: 'Rego' };
const hints: Record<string, string> = { rego: 'The path of a rule, such as acme/route/decision. Empty is the rule decision, or allow.', wasm: 'The exported function.' };

/** EngineForm has the settings of a single engine. */
export const EngineForm = component$(() => {
  const bench = useBench();
  const { request } = bench.draft.value;
  const settings = settingsOf(request);
  const { engine } = request;
  return (
    <fieldset>
      <legend>Engine: {names[engine] ?? engine}</legend>
      {!settings.library && (
        <Field
          label="Entrypoint"
          value={request.entrypoint ?? 'handle'}
          mono
          hint={hints[engine] ?? 'The function that is called. Empty means that the source itself is the program.'}
          path="entrypoint"
          take$={$((text: string) => change(bench, { entrypoint: text.trim() }))}
        />
      )}
      {engine === 'wasm' && (
        <CheckField
          label="Reuse instances"
          checked={settings.wasm?.reuse ?? false}
          hint="Calls run in instances that are reset after each call, instead of new ones. It is faster."
          take$={$((reuse: boolean) => changeSettings(bench, { wasm: reuse ? create(WasmOptionsSchema, { reuse }) : undefined }))}
        />
      )}
      {engine === 'rego' && (
        <>
          <div class="fields">
            <SelectField label="Input document" value={settings.rego?.input ?? ''} options={inputs} take$={$((input: string) => set(bench, { input }))} />
            <SelectField label="Runs as" value={settings.rego?.target ?? ''} options={targets} take$={$((target: string) => set(bench, { target }))} />
          </div>
          <CheckField label="Rego from before version 1" checked={settings.rego?.v0 ?? false} take$={$((v0: boolean) => set(bench, { v0 }))} />
        </>
      )}
    </fieldset>
  );
});

const set = (bench: Bench, part: Partial<RegoOptions>): void => changePart(bench, 'rego', RegoOptionsSchema, part);
