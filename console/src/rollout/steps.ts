import { seconds } from '~/ui/number';
import type { Candidate, Plan, Release } from '~/gen/proto/script/v1/script_pb';
import { untilOf, whereOf } from '~/release/plan';
import { failedOf } from '~/script/header';

/** Stage is a part of a rollout, between the tests and all agents. */
interface Stage {
  title: string;
  detail: string;
  state: 'done' | 'now' | 'next' | 'failed';
  /** When the pause of the present step ends, in milliseconds. */
  until: number | undefined;
}

/** planOf returns the candidate's plan: its change set's plan, if it is part of one. */
export const planOf = (r: Release): Plan | undefined => r.candidate?.set?.plan ?? r.settings?.rollout;

/** testsOf is how many tests the candidate has. */
export const testsOf = (r: Release): number => (r.candidate?.settings ?? r.settings)?.tests.length ?? 0;

/** stagesOf lists the stages of the candidate. A first version has no steps, because no other version could run on the remaining agents. */
export function stagesOf(r: Release, c: Candidate): Stage[] {
  const plan = planOf(r);
  const first = r.active?.number === c.version;
  const stages: { title: string; detail: string; at: number }[] = [];
  const tests = testsOf(r);
  if (tests > 0 || c.step === 0) {
    stages.push({ title: 'Tests', detail: tests === 0 ? 'no tests' : `${tests} on every agent`, at: 0 });
  }
  if (plan && plan.after.length > 0) {
    stages.push({ title: 'Other scripts', detail: `after ${plan.after.join(', ')}`, at: 0 });
  }
  for (const [i, step] of (first ? [] : (plan?.steps ?? [])).entries()) {
    stages.push({ title: `Step ${i + 1}: ${whereOf(step)}`, detail: untilOf(step) || 'until they run it', at: i + 1 });
  }
  return [...stages.map((s) => ({ title: s.title, detail: s.detail, state: stateOf(s.at, c), until: s.at === c.step ? untilAt(plan, c) : undefined })), end(first)];
}

const end = (first: boolean): Stage => ({ title: 'All agents', detail: first ? 'the first version: it has no steps' : 'live everywhere', state: 'next', until: undefined });

function stateOf(at: number, c: Candidate): Stage['state'] {
  if (at !== c.step) {
    return at < c.step ? 'done' : 'next';
  }
  return failedOf(c) ? 'failed' : 'now';
}

function untilAt(plan: Plan | undefined, c: Candidate): number | undefined {
  const pause = seconds(plan?.steps[c.step - 1]?.pause);
  if (!c.running || !pause || failedOf(c)) {
    return undefined;
  }
  const until = (Number(c.running.seconds) + pause) * 1000;
  return until > Date.now() ? until : undefined;
}

/** waitsForApproval reports whether the candidate waits for a person. */
export function waitsForApproval(r: Release, c: Candidate): boolean {
  const step = planOf(r)?.steps[c.step - 1];
  return c.paused !== '' || (step !== undefined && step.approval && (!step.gate || step.gate.approval) && c.approved < c.step);
}
