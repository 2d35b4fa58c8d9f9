import { $, component$, type QRL } from '@builder.io/qwik';
import { create } from '@bufbuild/protobuf';
import { useBench, type Bench } from '~/editor/bench';
import { shift } from '~/editor/unfinished';
import { LatencyIncreaseSchema, type Amount, type LatencyIncrease, type Plan } from '~/gen/proto/script/v1/script_pb';
import { listOf } from '~/ui/form';
import { DecimalField, Field, SelectField } from './field';
import { FormGuard } from './guard';
import { changePlan, formatAmount, nextStep, parseAmount, planOf } from './plan';
import { StepForm } from './step';
import { formatDuration, parseDuration, taken } from './values';

/** RolloutForm edits how a new version comes to the agents. */
export const RolloutForm = component$(() => {
  const bench = useBench();
  const plan = planOf(bench);
  const { steps } = plan;
  return (
    <FormGuard>
      {steps.length === 0 && <p class="faint">Without steps, a new version goes to all agents at once after its tests.</p>}
      {steps.map((step, i) => (
        <StepForm
          key={i}
          step={step}
          at={i}
          onRemove$={$(() => {
            changePlan(bench, { steps: planOf(bench).steps.toSpliced(i, 1) });
            bench.unfinished.value = shift(bench.unfinished.value, 'Step', i, -1);
          })}
        />
      ))}
      <div class="tools">
        <button type="button" disabled={steps.length >= 10} onClick$={() => add(bench)}>Add a step</button>
      </div>
      <ThresholdsForm plan={plan} />
      <ConditionsForm plan={plan} />
    </FormGuard>
  );
});

function add(bench: Bench): void {
  const { steps } = planOf(bench);
  changePlan(bench, { steps: [...steps, nextStep(steps)] });
}

interface PlanProps {
  plan: Plan;
}

const ThresholdsForm = component$<PlanProps>(({ plan }) => {
  const bench = useBench();
  return (
    <fieldset>
      <legend>Give the version up</legend>
      <p class="faint">The registry compares each step with the active version, and returns to it without you.</p>
      <div class="fields">
        <DecimalField
          label="If more calls fail than, in percent"
          value={plan.maxError ?? plan.maxErrorPercent}
          // Older software reads the whole number only.
          take$={$((n: number | undefined) => changePlan(bench, { maxError: n, maxErrorPercent: n === undefined ? n : Math.ceil(n) } as Partial<Plan>))}
        />
        <DecimalField label="If failures increase by, in percentage points" value={plan.maxErrorIncrease} take$={$((n: number | undefined) => changePlan(bench, { maxErrorIncrease: n } as Partial<Plan>))} />
        <DecimalField label="If more shadowed results differ than, in percent" value={plan.maxDiffPercent} take$={$((n: number | undefined) => changePlan(bench, { maxDiffPercent: n } as Partial<Plan>))} />
        {(['p50', 'p95', 'p99'] as const).map((p) => (
          <DecimalField
            key={p}
            label={`If ${p} increases by, in percent`}
            value={plan.maxLatencyIncrease?.[p] || undefined}
            take$={$((n: number | undefined) => {
              const latency: LatencyIncrease = { ...(planOf(bench).maxLatencyIncrease ?? create(LatencyIncreaseSchema)), [p]: Math.round(n ?? 0) };
              changePlan(bench, { maxLatencyIncrease: latency.p50 || latency.p95 || latency.p99 ? latency : undefined });
            })}
          />
        ))}
        <AmountField label="If it loses agents" value={plan.failureLimit} placeholder="1, or 1%" take$={$((a: Amount | undefined) => changePlan(bench, { failureLimit: a }))} />
        <DecimalField label="Calls as evidence in each step" value={plan.minCalls} placeholder="20" take$={$((n: number | undefined) => changePlan(bench, { minCalls: n === undefined ? n : Math.round(n) } as Partial<Plan>))} />
      </div>
    </fieldset>
  );
});

const ends = [
  { value: '', title: 'give the version up' },
  { value: 'pause', title: 'wait for somebody to decide' },
];

const ConditionsForm = component$<PlanProps>(({ plan }) => {
  const bench = useBench();
  return (
    <fieldset>
      <legend>Conditions</legend>
      <div class="fields">
        <AmountField label="Agents that may lag" value={plan.tolerate} placeholder="1%" take$={$((a: Amount | undefined) => changePlan(bench, { tolerate: a }))} />
        <Field
          label="Deadline, beside the pauses"
          value={formatDuration(plan.progressDeadline)}
          placeholder="none"
          hint="such as 1h"
          take$={$((text: string) => taken(parseDuration(text), (value) => changePlan(bench, value ? { progressDeadline: value } : { progressDeadline: undefined, onDeadline: '' })))}
        />
        {plan.progressDeadline && <SelectField label="At the deadline" value={plan.onDeadline} options={ends} take$={$((onDeadline: string) => changePlan(bench, { onDeadline }))} />}
        <Field label="After these scripts are live" value={plan.after.join(', ')} placeholder="none" hint="acme/lib" take$={$((text: string) => changePlan(bench, { after: listOf(text) }))} />
        {plan.steps.some((s) => s.keys) && <Field label="Key of a request" value={plan.key} placeholder="callers name the key" hint="request.headers.x-user" mono take$={$((text: string) => changePlan(bench, { key: text.trim() }))} />}
      </div>
    </fieldset>
  );
});

interface AmountProps {
  label: string;
  value: Amount | undefined;
  placeholder: string;
  take$: QRL<(a: Amount | undefined) => void>;
}

const AmountField = component$<AmountProps>(({ label, value, placeholder, take$ }) => (
  <Field
    label={label}
    value={formatAmount(value)}
    placeholder={placeholder}
    hint="a number, or such as 5%"
    take$={$((text: string) => taken(parseAmount(text), take$))}
  />
));
