import { component$ } from '@builder.io/qwik';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import { failedOf } from '~/script/header';
import { scriptHref } from '~/script/name';
import { Link } from '~/shell/link';
import { Time } from '~/ui/time';
import { Controls } from './controls';

/** Outcome shows where the candidate is, and why it ended, and lets a person decide. */
export const Outcome = component$(({ status }: { status: ScriptStatus }) => {
  const r = status.release!;
  const c = r.candidate!;
  const failed = failedOf(c);
  return (
    <section class={['card', 'outcome', failed ? 'bad-edge' : '']} aria-labelledby="outcome">
      <div class="head">
        <h2 id="outcome">
          Version {String(c.version)} {failed ? 'was given up' : c.frozen ? 'waits for the end of a freeze' : c.paused ? 'is paused' : 'is on its way'}
        </h2>
        <span class="faint">since <Time at={c.since} />{c.tries > 1 && `, attempt ${c.tries}`}</span>
        <Controls release={r} />
      </div>
      {failed && <p class="error" role="status">{failed}</p>}
      <p>
        {c.version === r.active?.number
          ? 'It is the first version: nothing runs until its tests pass.'
          : `Version ${r.active?.number} runs on ${status.active} of ${status.desired} agents, the candidate on ${status.trials?.running ?? 0}.`}{' '}
        <Link href={`${scriptHref(`${r.tenant}/${r.name}`, 'history/')}&a=${r.active?.number}&b=${c.version}`}>See what changes</Link>
      </p>
      {c.set && (
        <p class="notice">
          It is part of the change set <strong>{c.set.name}</strong>, which goes live as a whole:{' '}
          {c.set.scripts.map((s, i) => (
            <span key={s}>{i > 0 && ', '}<Link href={scriptHref(`${r.tenant}/${s}`, 'rollout/')}>{s}</Link></span>
          ))}
          {c.set.values.length > 0 && `, and the values ${c.set.values.map((v) => v.key).join(', ')}`}
        </p>
      )}
    </section>
  );
});
