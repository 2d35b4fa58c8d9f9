import { component$ } from '@builder.io/qwik';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import type { HistoryEntry } from '~/gen/proto/script/v1/script_pb';
import { changeText, isBySystem, isEnd } from '~/release/change';
import { wayOf } from '~/release/plan';
import { duration } from '~/ui/number';
import { Time } from '~/ui/time';
import { Failures } from './tests';

const example = `  tests:
  - name: carts go to the cart pool
    request: {path: /cart/7}
    expect: {pool: cart}
  rollout:
    steps:
    - {percent: 10, pause: 10m}
    - {percent: 50, pause: 10m}
    maxErrorPercent: 5`;

/** Idle shows how the last rollout ended, and how the next one will go. */
export const Idle = component$(({ status, history }: { status: ScriptStatus; history: HistoryEntry[] | undefined }) => {
  const r = status.release!;
  const last = history?.find(isEnd);
  const plan = r.settings?.rollout;
  const tests = r.settings?.tests.length ?? 0;
  const planned = (plan?.steps.length ?? 0) > 0 || tests > 0;
  return (
    <section class="card" aria-labelledby="idle">
      <h2 id="idle">Nothing is rolled out now</h2>
      {r.active && <p>Version {String(r.active.number)} runs on {status.active} of {status.desired} agents.</p>}
      {last && (
        <p>
          Last: <strong>{changeText(last)}</strong>, <Time at={last.time} />, by {isBySystem(last) ? 'the registry' : last.author}
          {last.note && `: ${last.note}`}
        </p>
      )}
      <Converged status={status} />
      <Failures status={status} />
      <h3>How the next version comes to the agents</h3>
      <p>{wayOf(plan, tests, false)}</p>
      {!planned && (
        <>
          <p>A new version can prove itself first. Add tests and steps to the manifest:</p>
          <pre>{example}</pre>
        </>
      )}
    </section>
  );
});

/** Converged shows how long the release took to reach all agents. */
const Converged = ({ status: { rollout: r, slowestAgent, converged } }: { status: ScriptStatus }) =>
  r ? (
    <dl class="facts">
      <dt>Live on all agents</dt><dd><Time at={r.convergedAt} />, {r.agents} agents</dd>
      <dt>From commit to live</dt><dd>median {duration(r.median)}, p99 {duration(r.p99)}, slowest {duration(r.slowest)}{r.slowestAgent && ` (${r.slowestAgent})`}</dd>
    </dl>
  ) : !converged && slowestAgent ? (
    <p>It is not live on all agents yet. It waits for {slowestAgent}.</p>
  ) : null;
