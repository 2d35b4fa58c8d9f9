import { $, component$, useContextProvider, type QRL } from '@builder.io/qwik';
import { create } from '@bufbuild/protobuf';
import { useBench, type Bench } from '~/editor/bench';
import { GateSchema, type Gate, type Step } from '~/gen/proto/script/v1/script_pb';
import { CheckField, DecimalField, Field, PlaceContext, SelectField } from './field';
import { changeStep, planOf, shareOf, withShare, type By, type Share } from './plan';
import { formatDuration, formatPairs, formatWhole, parseDuration, parsePairs, parseSmall, taken } from './values';

const kinds = [
  { value: 'agents', title: 'agents' },
  { value: 'keys', title: 'keys, such as users' },
  { value: 'shadow', title: 'calls, in their shadow' },
];
const gates = [
  { value: '', title: 'nothing else' },
  { value: 'prometheus', title: 'a query to a Prometheus' },
  { value: 'webhook', title: 'a webhook' },
];

interface Props {
  step: Step;
  at: number;
  onRemove$: QRL<() => void>;
}

/** StepForm edits one step of a rollout. */
export const StepForm = component$<Props>(({ step, at, onRemove$ }) => {
  const bench = useBench();
  const share = shareOf(step);
  useContextProvider(PlaceContext, { prefix: `Step ${at + 1}: ` });
  return (
    <fieldset>
      <legend>Step {at + 1}</legend>
      <div class="fields">
        <Field
          label="Percent"
          value={formatWhole(share.percent)}
          placeholder={share.by === 'agents' ? 'all that the labels select' : ''}
          path={`settings.rollout.steps[${at}].percent`}
          take$={$((text: string) => taken(parseSmall(text.replace('%', '')), (value) => setShare(bench, at, { percent: value })))}
        />
        <SelectField label="Of" value={share.by} options={kinds} take$={$((by: string) => setShare(bench, at, { by: by as By }))} />
        <Field
          label="On agents with the labels"
          value={formatPairs(Object.entries(share.selector))}
          placeholder="any"
          hint="zone: a, tier: gold"
          take$={$((text: string) => taken(parsePairs(text), (value) => setShare(bench, at, { selector: Object.fromEntries(value) })))}
        />
        <Field
          label="Lasts at least"
          value={formatDuration(step.pause)}
          placeholder="0s"
          hint="such as 10m"
          path={`settings.rollout.steps[${at}].pause`}
          take$={$((text: string) => taken(parseDuration(text), (value) => changeStep(bench, at, { pause: value })))}
        />
        <SelectField label="Then asks" value={step.gate?.kind ?? ''} options={gates} take$={$((kind: string) => setKind(bench, at, kind))} />
      </div>
      {step.gate && <GateForm gate={step.gate} at={at} />}
      <CheckField label="Somebody has to approve it" checked={step.gate ? step.gate.approval : step.approval} take$={$((on: boolean) => approve(bench, at, on))} />
      <button type="button" class="danger" onClick$={onRemove$} aria-label={`Remove step ${at + 1}`}>Remove</button>
    </fieldset>
  );
});

const GateForm = component$(({ gate, at }: { gate: Gate; at: number }) => {
  const bench = useBench();
  return (
    <div class="fields">
      <Field label={gate.kind === 'webhook' ? 'Name of the webhook' : 'Name of the Prometheus'} value={gate.source} hint="as the registry knows it" take$={$((text: string) => setGate(bench, at, { source: text.trim() }))} />
      {gate.kind === 'prometheus' && (
        <>
          <Field label="Query" value={gate.query} mono rows={2} hint="PromQL with $tenant, $script, $version, $active and $step" take$={$((text: string) => setGate(bench, at, { query: text }))} />
          <DecimalField label="At least" placeholder="none" value={gate.min} take$={$((min: number | undefined) => setGate(bench, at, { min } as Partial<Gate>))} />
          <DecimalField label="At most" placeholder="none" value={gate.max} take$={$((max: number | undefined) => setGate(bench, at, { max } as Partial<Gate>))} />
        </>
      )}
    </div>
  );
});

const stepAt = (bench: Bench, at: number): Step => planOf(bench).steps[at]!;

function setShare(bench: Bench, at: number, part: Partial<Share>): void {
  const step = stepAt(bench, at);
  changeStep(bench, at, withShare(step, { ...shareOf(step), ...part }));
}

/** A step with a gate always has approval set: software that knows no gates then waits for somebody. */
function setKind(bench: Bench, at: number, kind: string): void {
  const step = stepAt(bench, at);
  const approval = step.gate ? step.gate.approval : step.approval;
  changeStep(bench, at, kind ? { gate: create(GateSchema, { kind, approval, source: step.gate?.source ?? '' }), approval: true } : { gate: undefined, approval });
}

function setGate(bench: Bench, at: number, part: Partial<Gate>): void {
  changeStep(bench, at, { gate: { ...(stepAt(bench, at).gate ?? create(GateSchema)), ...part } });
}

function approve(bench: Bench, at: number, on: boolean): void {
  const { gate } = stepAt(bench, at);
  changeStep(bench, at, gate ? { gate: { ...gate, approval: on } } : { approval: on });
}
