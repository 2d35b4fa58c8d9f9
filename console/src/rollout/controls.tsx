import { $, component$, useSignal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { Steering } from '~/gen/proto/registry/v1/registry_pb';
import type { Candidate, Release } from '~/gen/proto/script/v1/script_pb';
import { PastOwner } from '~/release/pastowner';
import { signed } from '~/release/write';
import { failedOf } from '~/script/header';
import { Confirm } from '~/ui/confirm';
import { waitsForApproval } from './steps';

interface Move {
  steering: Steering;
  action: string;
  text: string;
  danger?: boolean;
  primary?: boolean;
}

const approve: Move = { steering: Steering.APPROVE, action: 'Approve', text: 'It may go on after this step, when all else that the step waits for has come.', primary: true };
const promote: Move = { steering: Steering.PROMOTE, action: 'Promote', text: 'It is live on all agents at once, whatever its tests and steps say.', danger: true };
const abort: Move = { steering: Steering.ABORT, action: 'Abort', text: 'The version that was active before runs on all agents. You can try this one again later.', danger: true };
const retry: Move = { steering: Steering.RETRY, action: 'Retry', text: 'It starts again with its tests, and goes through all steps.', primary: true };

/** movesOf returns the moves that make sense now. The registry decides whether the person can make them. */
function movesOf(r: Release, c: Candidate): Move[] {
  if (failedOf(c)) {
    return [retry, promote];
  }
  return [...(waitsForApproval(r, c) ? [approve] : []), promote, abort];
}

/** Target is the candidate that the person saw when they chose a move, so that the move cannot hit its successor. */
interface Target extends Move {
  version: bigint;
  step: number;
}

/** Controls let a person decide about the candidate. */
export const Controls = component$(({ release }: { release: Release }) => {
  const candidate = release.candidate!;
  const open = useSignal(false);
  const target = useSignal<Target>();
  const force = useSignal(false);
  const choose = $((move: Move) => {
    target.value = { ...move, version: candidate.version, step: candidate.step };
    force.value = false;
    open.value = true;
  });
  const steer = $(async (note: string) => {
    const { steering, version, step } = target.value!;
    const { tenant, name } = release;
    await registry().steer({ tenant, name, steering, version, step: steering === Steering.APPROVE ? step : 0, force: force.value, ...(await signed(note)) });
  });
  const t = target.value;
  return (
    <div class="end" role="group" aria-label="Decide about the candidate">
      {movesOf(release, candidate).map((m) => (
        <button key={m.action} type="button" class={{ primary: m.primary, danger: m.danger }} onClick$={() => choose(m)}>{m.action}…</button>
      ))}
      <Confirm open={open} title={t ? `${t.action} version ${t.version} of ${release.tenant}/${release.name}` : ''} action={t?.action ?? ''} danger={t?.danger} reason onConfirm$={steer}>
        <p>{t?.text}</p>
        {t?.steering === Steering.APPROVE && <p class="faint">The approval is for step {t.step} alone.</p>}
        {candidate.set && <p class="notice">It is part of the change set {candidate.set.name}: this decides about all of its {candidate.set.scripts.length} scripts.</p>}
        {t && t.version !== candidate.version && <p class="notice warn">Candidate {String(candidate.version)} took its place meanwhile: the registry refuses this.</p>}
        {release.owner && t?.steering !== Steering.APPROVE && <PastOwner owner={release.owner} force={force} label="Do it all the same" />}
      </Confirm>
    </div>
  );
});
