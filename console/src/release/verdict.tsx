import { component$ } from '@builder.io/qwik';
import { placeOf, text } from '~/api/failure';
import type { Checked } from './check';
import { Comparison } from './comparison';
import { boundsOf, deadlineOf, wayOf } from './plan';
import { ownerText } from './owner';

/** Verdict shows whether the registry accepts a draft, how it would come to the agents, and what changes. */
export const Verdict = component$(({ checked }: { checked: Checked }) => (
  <>
    <Refusal checked={checked} />
    <Way checked={checked} />
    <Comparison before={checked.active} after={checked.mine} />
  </>
));

const Refusal = ({ checked: { failure, would, release } }: { checked: Checked }) => (
  <>
    {failure && (
      <p class="error" role="alert">
        {placeOf(failure)}{text(failure)}
      </p>
    )}
    {release?.owner && <p class="notice warn">{ownerText(release.owner)}</p>}
    {would && !would.changed && <p class="notice">The newest version is the same: publishing changes nothing.</p>}
    {would?.warnings.map((w) => <p key={w} class="notice warn">{w}</p>)}
    {would && !failure && <p class="good">✓ The registry accepts it.</p>}
  </>
);

const Way = ({ checked: { release, mine, would } }: { checked: Checked }) => {
  const plan = mine.raw?.rollout;
  const bounds = boundsOf(plan);
  const frozen = would?.release?.candidate?.frozen;
  return (
    <section>
      <h3>How it comes to the agents</h3>
      {release?.hold ? (
        <p>
          {release.hold.author} holds the script at version {String(release.active?.number)}{release.hold.note && ` (“${release.hold.note}”)`}. The registry stores the
          version, and what runs does not change unless you release the hold.
        </p>
      ) : (
        <p>{wayOf(plan, mine.raw?.tests.length ?? 0, !release)}</p>
      )}
      {frozen && <p class="notice warn">The registry is frozen: {frozen}. The version waits until the freeze ends.</p>}
      {bounds.length > 0 && plan && plan.steps.length > 0 && <p class="faint">The registry aborts it if {bounds.join(', or if ')}. {deadlineOf(plan)}</p>}
      {release?.candidate && !release.candidate.failed && (
        <p class="notice warn">Candidate {String(release.candidate.version)} is on its way. This version takes its place.</p>
      )}
    </section>
  );
};
