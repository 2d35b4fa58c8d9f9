import { $, component$, useComputed$ } from '@builder.io/qwik';
import { registry } from '~/api/client';
import type { ShadowCalls, ShadowSample } from '~/gen/proto/script/v1/script_pb';
import { Freshness } from '~/live/freshness';
import { usePoll } from '~/live/poll';
import { documentOf } from '~/release/settings';
import { print } from '~/release/tree';
import { DiffView } from '~/release/view';
import type { Name } from '~/script/name';
import { bytesOf } from '~/ui/bytes';
import { count } from '~/ui/number';
import { Time } from '~/ui/time';
import { share } from './figures';

const pause = 5000;

/** Shadow shows where a candidate's results differ from the live results. No caller gets them yet. */
export const Shadow = component$(({ name, calls }: { name: Name; calls: ShadowCalls | undefined }) => {
  const query = useComputed$(() => ({ ...name }));
  const { found, live } = usePoll(query, pause, $((script: Name, signal: AbortSignal) => registry().shadowDiff({ ...script }, { signal })));
  const findings = found.value?.findings;
  const c = calls ?? found.value?.calls;
  return (
    <section class="card" aria-labelledby="shadow">
      <div class="head">
        <h2 id="shadow">Calls in the shadow</h2>
        <Freshness live={live.value} />
      </div>
      {c && <Counts calls={c} />}
      {findings && findings.paths.length > 0 && (
        <>
          <h3>Where results differ most</h3>
          <ul>
            {findings.paths.slice(0, 20).map((p) => <li key={p.path}><code>{p.path || 'the whole result'}</code>: {count(p.count)}</li>)}
            {findings.otherPaths > 0n && <li class="faint">{count(findings.otherPaths)} at other places</li>}
          </ul>
        </>
      )}
      {findings?.samples.map((s, i) => <Sample key={i} sample={s} />)}
      {findings && findings.samples.length === 0 && <p class="faint">No call differed so far, on the agents that answered.</p>}
      <p class="faint">Agents keep some of the calls that differ, with secrets masked.</p>
    </section>
  );
});

const Counts = ({ calls: c }: { calls: ShadowCalls }) => {
  const compared = c.equal + c.different + c.failed;
  return (
    <dl class="facts">
      <dt>Equal</dt><dd>{share(c.equal, compared)}</dd>
      <dt>Different</dt><dd class={c.different > 0n ? 'bad' : ''}>{share(c.different, compared)}</dd>
      <dt>Failed, and the live one did not</dt><dd class={c.failed > 0n ? 'bad' : ''}>{share(c.failed, compared)}</dd>
      <dt>Slower</dt><dd>{share(c.slower, compared)}</dd>
      <dt>Dropped, as the agent had no room</dt><dd>{count(c.dropped)}</dd>
    </dl>
  );
};

/** Sample is one call. A tenant or its callers wrote all of it, so it is shown as text only. */
const Sample = ({ sample: s }: { sample: ShadowSample }) => (
  <details class="sample">
    <summary><Time at={s.time} clock /> differs at {s.paths.slice(0, 5).map((p) => p || 'the whole result').join(', ')}{s.paths.length > 5 && ` and ${s.paths.length - 5} more`}</summary>
    <h4>Called with</h4>
    <pre>{pretty(s.input)}</pre>
    <h4>Version {String(s.active)} answered −, version {String(s.candidate)} would +</h4>
    <DiffView before={pretty(s.live)} after={pretty(s.shadow)} label={`Results of versions ${s.active} and ${s.candidate}`} />
    {s.logs.length > 0 && <><h4>The candidate logged</h4><pre>{s.logs.join('\n')}</pre></>}
  </details>
);

const pretty = (json: string): string => print(documentOf(bytesOf(json))).join('\n');
