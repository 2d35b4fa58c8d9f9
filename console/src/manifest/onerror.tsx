import { $, component$ } from '@builder.io/qwik';
import { changePart, settingsOf, useBench, type Bench } from '~/editor/bench';
import { OnErrorSchema, type OnError } from '~/gen/proto/script/v1/script_pb';
import { Field, SelectField } from './field';
import { formatWhole, parseSmall, taken } from './values';

const policies = [
  { value: '', title: 'Deny the request (closed)' },
  { value: 'open', title: 'Let the request go on (open)' },
];

/** OnErrorForm sets what a gateway gets if the script makes no decision. */
export const OnErrorForm = component$(() => {
  const bench = useBench();
  const onError = settingsOf(bench.draft.value.request).onError;
  const open = onError?.policy === 'open';
  return (
    <fieldset>
      <legend>If the script fails</legend>
      <div class="fields">
        <SelectField label="A gateway should" value={open ? 'open' : ''} options={policies} take$={$((policy: string) => set(bench, policy === 'open' ? { policy, status: 0, body: '' } : { policy }))} />
        {!open && (
          <>
            <Field
              label="Status"
              value={formatWhole(onError?.status ?? 0)}
              placeholder="503"
              hint="300 to 599"
              path="settings.onError.status"
              take$={$((text: string) => taken(parseSmall(text), (value) => set(bench, { status: value })))}
            />
            <Field label="Body" value={onError?.body ?? ''} placeholder="no decision" rows={2} path="settings.onError.body" take$={$((text: string) => set(bench, { body: text }))} />
          </>
        )}
      </div>
    </fieldset>
  );
});

const set = (bench: Bench, part: Partial<OnError>): void => changePart(bench, 'onError', OnErrorSchema, part);
