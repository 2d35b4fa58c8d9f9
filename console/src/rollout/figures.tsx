import { component$ } from '@builder.io/qwik';
import type { RolloutCalls, WatchRolloutResponse } from '~/gen/proto/registry/v1/registry_pb';
import type { Plan } from '~/gen/proto/script/v1/script_pb';
import { planOf } from './steps';
import { count, duration } from '~/ui/number';

/** Figures compares the candidate's calls with the active version's. */
export const Figures = component$(({ message }: { message: WatchRolloutResponse }) => {
  const status = message.status!.scripts[0]!;
  const r = status.release!;
  const { candidateCalls, activeCalls } = message;
  const calls = status.trials?.calls ?? 0n;
  const failed = status.trials?.failedCalls ?? 0n;
  return (
    <section class="card" aria-labelledby="figures">
      <h2 id="figures">Calls</h2>
      <div class="scroll">
        <table class="plain">
          <thead>
            <tr><th scope="col">Version</th><th scope="col" class="number">Calls</th><th scope="col" class="number">Failed</th><th scope="col" class="number">p50</th><th scope="col" class="number">p99</th></tr>
          </thead>
          <tbody>
            {candidateCalls && activeCalls ? (
              <>
                <Line title={`${r.candidate!.version}, candidate`} calls={candidateCalls} />
                <Line title={`${r.active!.number}, active`} calls={activeCalls} />
              </>
            ) : (
              <tr>
                <td>{String(r.candidate!.version)}, candidate</td>
                <td class="number">{count(calls)}</td>
                <td class="number">{share(failed, calls)}</td>
                <td class="number faint" colSpan={2}>not compared</td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
      <p class="faint">
        {candidateCalls
          ? 'Both count from the start of the step: the candidate on the agents of the step, the active version on all others.'
          : `Counted since the attempt began. ${compares(planOf(r)) ? '' : 'A plan with maxErrorIncrease or maxLatencyIncrease also counts the active version in the same step.'}`}
      </p>
    </section>
  );
});

const compares = (plan: Plan | undefined): boolean => plan?.maxErrorIncrease !== undefined || plan?.maxLatencyIncrease !== undefined;

const Line = ({ title, calls: c }: { title: string; calls: RolloutCalls }) => (
  <tr>
    <td>{title}</td>
    <td class="number">{count(c.calls)}</td>
    <td class="number">{share(c.failedCalls, c.calls)}</td>
    <td class="number">{duration(c.p50)}</td>
    <td class="number">{duration(c.p99)}</td>
  </tr>
);

/** share is "2 (5 %)". */
export function share(part: bigint, all: bigint): string {
  if (all === 0n) {
    return '–';
  }
  const percent = (Number(part) / Number(all)) * 100;
  return `${count(part)} (${percent === 0 || percent >= 10 ? Math.round(percent) : percent.toPrecision(2)} %)`;
}
