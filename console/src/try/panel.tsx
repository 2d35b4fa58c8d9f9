import { $, component$, useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { failureOf, text } from '~/api/failure';
import { settingsOf, useBench } from '~/editor/bench';
import { isJSON } from '~/ui/json';
import { Problem } from '~/ui/problem';
import { tryDraft, whyNot, type Outcome } from './call';
import { RequestEditor } from './editor';
import { TestOutcomes } from './outcomes';
import { recordedOf, remember, savedOf, start, type Saved } from './request';
import { ErrorView, ResultView } from './result';
import { SaveAsTest } from './save';

/** TryPanel runs the draft on an agent. The keyboard changes run to start a call. */
export const TryPanel = component$(({ run }: { run: Signal<number> }) => {
  const bench = useBench();
  const { tests, library } = settingsOf(bench.draft.value.request);
  const json = useSignal(savedOf(tests, [])[0]?.json ?? start);
  const tried = useSignal<string[]>([]);
  const busy = useSignal(false);
  const wanted = useSignal<'request' | 'tests'>();
  const outcome = useSignal<Outcome>();
  const recorded = useSignal<Saved[]>([]);
  const said = useSignal('');

  const readRecorded = $(async () => {
    const { tenant, name } = bench.draft.value.request;
    try {
      const { calls } = await registry().recentCalls({ tenant, name, limit: 20 });
      recorded.value = recordedOf(calls);
      said.value =
        recorded.value.length > 0
          ? `${recorded.value.length} recorded requests are in the list. What the decision log masks is *** in them.`
          : 'Agents have no recorded requests of this script. To record some, open Settings, Decision log.';
    } catch (e) {
      said.value = text(failureOf(e));
    }
  });

  /** go runs the draft as it is now. What the person wants while a call runs comes after it. */
  const go = $(async (what: 'request' | 'tests') => {
    if (what === 'request' && !isJSON(json.value)) {
      return;
    }
    wanted.value = what;
    if (busy.value) {
      return;
    }
    busy.value = true;
    while (wanted.value) {
      const sent = wanted.value === 'request' ? json.value : undefined;
      wanted.value = undefined;
      outcome.value = await tryDraft(bench, sent);
      tried.value = sent === undefined ? tried.value : remember(tried.value, sent);
    }
    busy.value = false;
  });

  useVisibleTask$(
    async ({ track }) => {
      if (track(() => run.value) > 0) {
        await go('request');
      }
    },
    { strategy: 'document-ready' },
  );

  if (library) {
    return <section class="card" aria-label="Try it"><h2>Try it</h2><p>Nobody calls a library. Try a script that requires it.</p></section>;
  }
  return (
    <section class="card" aria-label="Try it">
      <h2>Try it</h2>
      <p class="faint">An agent runs the draft in the sandbox of the tenant. No gateway can reach it, and the registry stores nothing of it.</p>
      <RequestEditor json={json} saved={savedOf(tests, tried.value, recorded.value)} onRecorded$={readRecorded} />
      <p class="faint" role="status">{said.value}</p>
      <div class="tools">
        <button type="button" class="primary" disabled={busy.value} onClick$={() => go('request')} title="Ctrl Enter">Run</button>
        <button type="button" disabled={busy.value || tests.length === 0} onClick$={() => go('tests')}>{tests.length === 0 ? 'No tests yet' : `Run ${tests.length === 1 ? 'the test' : `all ${tests.length} tests`}`}</button>
        <span class="faint"><kbd>Ctrl Enter</kbd> runs</span>
        <span role="status">{busy.value && 'An agent runs it…'}</span>
      </div>
      <div class="outcome" aria-live="polite" aria-busy={busy.value}>
        <Problem failure={outcome.value?.failure} />
        {outcome.value?.response && <Answer outcome={outcome.value} />}
      </div>
    </section>
  );
});

const Answer = component$(({ outcome }: { outcome: Outcome }) => {
  const response = outcome.response!;
  const why = whyNot(response);
  if (why) {
    return (
      <>
        <p>{response.agent ? `The agent ${response.agent} could not compile it:` : 'Nothing ran. The registry says:'}</p>
        <ErrorView error={why} />
      </>
    );
  }
  const [call] = response.calls;
  if (outcome.json === undefined) {
    return (
      <>
        <TestOutcomes results={response.tests} />
        <p class="faint">It ran on the agent {response.agent}.</p>
      </>
    );
  }
  if (!call) {
    return <p class="notice warn">The time ran out before the call started.</p>;
  }
  return (
    <>
      <ResultView result={call} agent={response.agent} />
      <SaveAsTest json={outcome.json} result={call} />
    </>
  );
});
