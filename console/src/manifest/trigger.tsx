import { $, component$ } from '@builder.io/qwik';
import { create } from '@bufbuild/protobuf';
import { changePart, orNone, settingsOf, useBench, type Bench } from '~/editor/bench';
import { TriggerHeaderSchema, TriggerMatchSchema, TriggerSchema, type Trigger, type TriggerMatch } from '~/gen/proto/script/v1/script_pb';
import { listOf } from '~/ui/form';
import { Field } from './field';
import { formatPairs, formatWhole, parsePairs, parseSigned, taken } from './values';

/** TriggerForm sets on which event of a gateway the script runs, and for which requests. */
export const TriggerForm = component$(() => {
  const bench = useBench();
  const trigger = settingsOf(bench.draft.value.request).trigger;
  const match = trigger?.match;
  return (
    <fieldset>
      <legend>Trigger</legend>
      <p class="faint">Gateways run the scripts of an event in a chain. Without an event, callers name the script.</p>
      <div class="fields">
        <Field label="Event" value={trigger?.event ?? ''} placeholder="none" hint="such as pre-route" path="settings.trigger.event" take$={$((text: string) => set(bench, { event: text.trim() }))} />
        <Field
          label="Priority"
          value={formatWhole(trigger?.priority ?? 0)}
          placeholder="0"
          hint="Higher ones run first."
          path="settings.trigger.priority"
          take$={$((text: string) => taken(parseSigned(text), (value) => set(bench, { priority: value })))}
        />
        <Field label="Hosts" value={match?.hosts.join(', ') ?? ''} placeholder="any" hint="shop.example, *.shop.example" path="settings.trigger.match.hosts" take$={$((text: string) => setMatch(bench, { hosts: listOf(text) }))} />
        <Field label="Path prefixes" value={match?.pathPrefixes.join(', ') ?? ''} placeholder="any" hint="/cart is for /cart and /cart/7" path="settings.trigger.match.pathPrefixes" take$={$((text: string) => setMatch(bench, { pathPrefixes: listOf(text) }))} />
        <Field label="Methods" value={match?.methods.join(', ') ?? ''} placeholder="any" hint="GET, POST" path="settings.trigger.match.methods" take$={$((text: string) => setMatch(bench, { methods: listOf(text.toUpperCase()) }))} />
        <Field
          label="Headers"
          value={formatPairs((match?.headers ?? []).map((h) => [h.name, h.value]))}
          placeholder="any"
          hint="x-beta: 1; * is any value"
          path="settings.trigger.match.headers"
          take$={$((text: string) => taken(parsePairs(text), (value) => setMatch(bench, { headers: value.map(([name, value]) => create(TriggerHeaderSchema, { name: name.toLowerCase(), value })) })))}
        />
      </div>
    </fieldset>
  );
});

const set = (bench: Bench, part: Partial<Trigger>): void => changePart(bench, 'trigger', TriggerSchema, part);

function setMatch(bench: Bench, part: Partial<TriggerMatch>): void {
  const match = { ...(settingsOf(bench.draft.value.request).trigger?.match ?? create(TriggerMatchSchema)), ...part };
  set(bench, { match: orNone(TriggerMatchSchema, match) });
}
