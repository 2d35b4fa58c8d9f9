import { create } from '@bufbuild/protobuf';
import { changePart, settingsOf, type Bench } from '~/editor/bench';
import { AmountSchema, KeyShareSchema, PlanSchema, ShadowShareSchema, StepSchema, type Amount, type Plan, type Step } from '~/gen/proto/script/v1/script_pb';
import type { Parsed } from './values';

/** By is what a step takes a share of. */
export type By = 'agents' | 'keys' | 'shadow';

/** Share is a step as the form has it. In a message, each kind of step has its share in another field. */
export interface Share {
  by: By;
  percent: number;
  selector: Record<string, string>;
}

export function shareOf(s: Step): Share {
  const { percent, selector } = s.keys ?? s.shadow ?? s;
  return { by: s.keys ? 'keys' : s.shadow ? 'shadow' : 'agents', percent, selector };
}

/** withShare keeps the rest of a step. */
export function withShare(s: Step, { by, percent, selector }: Share): Step {
  return {
    ...s,
    percent: by === 'agents' ? percent : 0,
    selector: by === 'agents' ? selector : {},
    keys: by === 'keys' ? create(KeyShareSchema, { percent, selector }) : undefined,
    shadow: by === 'shadow' ? create(ShadowShareSchema, { percent, selector }) : undefined,
  };
}

export const planOf = (bench: Bench): Plan => settingsOf(bench.draft.value.request).rollout ?? create(PlanSchema);

export const changePlan = (bench: Bench, part: Partial<Plan>): void => changePart(bench, 'rollout', PlanSchema, part);

export function changeStep(bench: Bench, at: number, part: Partial<Step>): void {
  changePlan(bench, { steps: planOf(bench).steps.map((s, i) => (i === at ? { ...s, ...part } : s)) });
}

/** nextStep suggests the step after the present ones. */
export function nextStep(steps: Step[]): Step {
  const most = Math.max(0, ...steps.filter((s) => !s.keys && !s.shadow).map((s) => s.percent));
  const percent = most === 0 ? 5 : Math.min(99, most < 25 ? 25 : most < 50 ? 50 : most + 10);
  return create(StepSchema, { percent, pause: { seconds: 600n, nanos: 0 } });
}

/** parseAmount reads a number of agents, or a percentage of them. 0 is none of them. */
export function parseAmount(text: string): Parsed<Amount | undefined> {
  const t = text.trim();
  if (t === '') {
    return { value: undefined };
  }
  if (!/^\d{1,6}%?$/.test(t)) {
    return { problem: 'Write a number of agents, or a percentage such as 5%.' };
  }
  const n = Number.parseInt(t, 10);
  return { value: create(AmountSchema, t.endsWith('%') ? { percent: n } : n === 0 ? { none: true } : { count: n }) };
}

export const formatAmount = (a: Amount | undefined): string => (!a ? '' : a.none ? '0' : a.percent ? `${a.percent}%` : formatCount(a.count));

const formatCount = (n: number): string => (n ? String(n) : '');
