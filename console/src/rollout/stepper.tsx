import { component$ } from '@builder.io/qwik';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import { boundsOf, deadlineOf } from '~/release/plan';
import { Time } from '~/ui/time';
import { failedOf } from '~/script/header';
import { planOf, stagesOf } from './steps';

const signs = { done: '✓', now: '●', next: '○', failed: '✕' };
const words = { done: 'done', now: 'now', next: 'next', failed: 'ended here' };

/** Stepper shows the stages of a candidate, and what it waits for. */
export const Stepper = component$(({ status }: { status: ScriptStatus }) => {
  const release = status.release!;
  const candidate = release.candidate!;
  const plan = planOf(release);
  const bounds = boundsOf(plan);
  return (
    <section class="card" aria-labelledby="steps">
      <h2 id="steps">Steps</h2>
      <ol class="stepper">
        {stagesOf(release, candidate).map((s) => (
          <li key={s.title} class={s.state} aria-current={s.state === 'now' ? 'step' : undefined}>
            <span class="sign" aria-hidden="true">{signs[s.state]}</span>
            <span>
              <strong>{s.title}</strong> <span class="tag">{words[s.state]}</span>
              <br />
              <span class="faint">{s.detail}{s.until && <>, to <Time at={s.until} clock /></>}</span>
            </span>
          </li>
        ))}
      </ol>
      <Waits status={status} />
      {bounds.length > 0 && <p class="faint">The registry aborts it if {bounds.join(', or if ')}. {deadlineOf(plan)}</p>}
    </section>
  );
});

/** Waits shows what the candidate waits for. It has room also when it waits for nothing, so that the page does not jump. */
const Waits = ({ status }: { status: ScriptStatus }) => {
  const c = status.release!.candidate!;
  const t = status.trials;
  if (failedOf(c)) {
    return null;
  }
  return (
    <dl class="facts waits">
      <dt>Waits for</dt>
      <dd><span role="status">{c.paused || c.frozen || t?.why || (t?.waiting ? agentsText(t) : 'nothing: the next move is due')}</span></dd>
      {t && t.waiting > 0 && (
        <>
          <dt>Agents</dt>
          <dd>{agentsText(t)}</dd>
        </>
      )}
      <dt>Evidence</dt>
      <dd>{t?.evidence || 'none yet'}</dd>
    </dl>
  );
};

function agentsText(t: NonNullable<ScriptStatus['trials']>): string {
  const [first, ...rest] = t.waitingFor;
  const named = [t.waitingWhy && first ? `${first} (${t.waitingWhy})` : first, ...rest].filter(Boolean).join(', ');
  const more = t.waiting - t.waitingFor.length;
  return more > 0 ? `${named} and ${more} more` : named;
}
