import type { Plan, Step } from '~/gen/proto/script/v1/script_pb';
import { duration, seconds } from '~/ui/number';

/** selectorText is "zone=a,pool=edge"; empty for any agent. */
const selectorText = (selector: { [label: string]: string } | undefined): string =>
  Object.entries(selector ?? {}).sort().map(([label, value]) => `${label}=${value}`).join(',');

/** whereOf describes which agents or calls a step takes. */
export function whereOf(step: Step): string {
  const part = step.shadow ?? step.keys;
  const selector = selectorText(part?.selector ?? step.selector);
  const on = selector && ` on ${selector}`;
  if (step.shadow) {
    return `in the shadow of ${step.shadow.percent} % of the calls${on}`;
  }
  if (step.keys) {
    return `${step.keys.percent} % of the keys${on}`;
  }
  if (step.percent === 0) {
    return selector ? `all agents with ${selector}` : 'all agents';
  }
  return `${step.percent} % of the agents${selector && ` with ${selector}`}`;
}

/** untilOf describes what a step waits for besides evidence; empty if nothing. */
export function untilOf(step: Step): string {
  const parts = [];
  if (seconds(step.pause)) {
    parts.push(`for ${duration(step.pause)}`);
  }
  if (step.approval && (!step.gate || step.gate.approval)) {
    parts.push('until somebody approves it');
  }
  if (step.gate) {
    parts.push(`until the gate ${step.gate.kind}/${step.gate.source} passes`);
  }
  return parts.join(' and ');
}

/** boundsOf lists what aborts a rollout. */
export function boundsOf(plan: Plan | undefined): string[] {
  if (!plan) {
    return [];
  }
  const bounds = [];
  const most = plan.maxError ?? plan.maxErrorPercent;
  if (most !== undefined) {
    bounds.push(`more than ${most} % of the candidate's calls fail`);
  }
  if (plan.maxErrorIncrease !== undefined) {
    bounds.push(`${plan.maxErrorIncrease} % more of its calls fail than of the active version's`);
  }
  if (plan.maxDiffPercent !== undefined) {
    bounds.push(`the results of more than ${plan.maxDiffPercent} % of the shadowed calls differ`);
  }
  for (const name of ['p50', 'p95', 'p99'] as const) {
    if (plan.maxLatencyIncrease?.[name]) {
      bounds.push(`its ${name} is more than ${plan.maxLatencyIncrease[name]} % slower`);
    }
  }
  return bounds;
}

/** deadlineOf describes what happens to a candidate that waits too long; empty without a deadline. */
export const deadlineOf = (plan: Plan | undefined): string =>
  plan?.progressDeadline ? `After ${duration(plan.progressDeadline)} without progress the registry ${plan.onDeadline === 'pause' ? 'pauses it' : 'aborts it'}.` : '';

/** wayOf describes how a version comes to the agents. */
export function wayOf(plan: Plan | undefined, tests: number, first: boolean): string {
  const steps = first ? [] : (plan?.steps ?? []);
  const parts = tests > 0 ? [tests === 1 ? '1 test on every agent' : `${tests} tests on every agent`] : [];
  if (plan?.after.length) {
    parts.push(`when ${plan.after.join(', ')} ${plan.after.length === 1 ? 'is' : 'are'} live`);
  }
  for (const step of steps) {
    parts.push([whereOf(step), untilOf(step)].filter(Boolean).join(' '));
  }
  if (parts.length === 0) {
    return 'To all agents at once.';
  }
  return `${capital(parts.join(', then '))}, then all agents.`;
}

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);
