import { $, component$ } from '@builder.io/qwik';
import { changePart, settingsOf, useBench, type Bench } from '~/editor/bench';
import { LimitsSchema, type Limits } from '~/gen/proto/script/v1/script_pb';
import { CheckField, Field } from './field';
import { formatDuration, formatWhole, parseDuration, parseSmall, parseWhole, taken } from './values';

type Size = 'instructions' | 'sourceBytes' | 'resultBytes' | 'logBytes' | 'stringBytes' | 'wasmMemory';

interface SizeField {
  id: Size;
  label: string;
  placeholder: string;
  hint: string;
}

const sizes: SizeField[] = [
  { id: 'instructions', label: 'Instructions of a call', placeholder: '1000000', hint: 'up to 100,000,000' },
  { id: 'resultBytes', label: 'Bytes of results', placeholder: '65536', hint: 'up to 1,048,576' },
  { id: 'sourceBytes', label: 'Bytes of source', placeholder: '65536', hint: 'up to 1,048,576; modules 4,194,304' },
  { id: 'logBytes', label: 'Bytes of logs a second', placeholder: '16384', hint: 'on each agent, up to 1,048,576' },
];
const ofLua: SizeField = { id: 'stringBytes', label: 'Bytes of a string', placeholder: '262144', hint: 'up to 4,194,304' };
const ofWasm: SizeField = { id: 'wasmMemory', label: 'Bytes of memory', placeholder: '16777216', hint: '65,536 to 67,108,864' };

/** LimitsForm bounds each call. Empty fields have the default that they show. */
export const LimitsForm = component$(() => {
  const bench = useBench();
  const { request } = bench.draft.value;
  const limits = settingsOf(request).limits;
  const lua = request.engine === 'lua' || request.engine === '';
  return (
    <fieldset>
      <legend>Limits</legend>
      <div class="fields">
        <Field
          label="Time of a call"
          value={formatDuration(limits?.timeout)}
          placeholder="100ms"
          hint="up to 10s"
          path="settings.limits.timeout"
          take$={$((text: string) => taken(parseDuration(text), (value) => set(bench, { timeout: value })))}
        />
        {[...sizes, lua ? ofLua : ofWasm].map((f) => (
          <Field
            key={f.id}
            label={f.label}
            value={formatWhole(limits?.[f.id] ?? 0n)}
            placeholder={f.placeholder}
            hint={f.hint}
            path={`settings.limits.${f.id}`}
            take$={$((text: string) => taken(parseWhole(text), (value) => set(bench, { [f.id]: value })))}
          />
        ))}
        <Field
          label="Calls at once"
          value={formatWhole(limits?.concurrency ?? 0)}
          placeholder="the tenant's"
          hint="on each agent, up to 1,024"
          path="settings.limits.concurrency"
          take$={$((text: string) => taken(parseSmall(text), (value) => set(bench, { concurrency: value })))}
        />
      </div>
      {lua && <CheckField label="Coroutines" checked={limits?.coroutines ?? false} hint="The script finds the coroutine library." take$={$((on: boolean) => set(bench, { coroutines: on }))} />}
    </fieldset>
  );
});

const set = (bench: Bench, part: Partial<Limits>): void => changePart(bench, 'limits', LimitsSchema, part);
