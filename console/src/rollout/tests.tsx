import { component$ } from '@builder.io/qwik';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import type { Error as Fault } from '~/gen/proto/script/v1/script_pb';
import { testsOf } from './steps';

/** Tests counts the agents on which the tests passed, and lists the failures. */
export const Tests = component$(({ status }: { status: ScriptStatus }) => {
  const t = status.trials;
  const tests = testsOf(status.release!);
  return (
    <section class="card" aria-labelledby="tests">
      <h2 id="tests">Tests</h2>
      {tests === 0 ? (
        <p class="faint">The version has no tests. Add some under <code>tests:</code> in its manifest, and they run on every agent before it is live.</p>
      ) : (
        <p>
          {tests} {tests === 1 ? 'test' : 'tests'}: passed on <strong>{t?.passed ?? 0}</strong>, failed on <strong class={t?.failed ? 'bad' : ''}>{t?.failed ?? 0}</strong> of {status.desired} agents.
        </p>
      )}
      <Failures status={status} />
    </section>
  );
});

export const Failures = component$(({ status }: { status: ScriptStatus }) =>
  status.failures.length > 0 ? (
    <>
      <h3>Failures</h3>
      <ul class="failures">
        {status.failures.map((f) => <li key={f.agent}><strong>{f.agent}</strong>: {faultText(f.error)}</li>)}
        {status.failed > status.failures.length && <li class="faint">and on {status.failed - status.failures.length} more agents</li>}
      </ul>
    </>
  ) : null,
);

/** faultText has the place in the script, if the error has one. */
export const faultText = (e: Fault | undefined): string => (e ? [e.field, e.line > 0 ? `line ${e.line}` : '', e.message].filter(Boolean).join(': ') : 'no reason given');
