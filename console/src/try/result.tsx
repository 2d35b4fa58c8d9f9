import { $, component$ } from '@builder.io/qwik';
import { text } from '~/api/failure';
import { useBench } from '~/editor/bench';
import { textOf } from '~/ui/bytes';
import { pretty } from '~/ui/json';
import type { TryResult } from '~/gen/proto/event/v1/try_pb';
import type { Error as ScriptError } from '~/gen/proto/script/v1/script_pb';
import { bytes, count, duration } from '~/ui/number';
import { Time } from '~/ui/time';

/** ResultView shows the result of one call. */
export const ResultView = component$(({ result, agent }: { result: TryResult; agent: string }) => (
  <>
    {result.error ? <ErrorView error={result.error} /> : <Values values={result.results} truncated={result.truncated} />}
    <dl class="facts">
      <dt>Agent</dt><dd>{agent}</dd>
      <dt>Instructions</dt><dd>{count(result.instructions)}</dd>
      <dt>Time</dt><dd>{duration(result.took)}</dd>
      <dt>Allocated</dt><dd>about {bytes(result.allocatedBytes)}</dd>
    </dl>
    <Logs result={result} />
  </>
));

const Values = ({ values, truncated }: { values: Uint8Array[]; truncated: boolean }) => {
  if (truncated) {
    return <p class="notice warn">The results are too large to show.</p>;
  }
  if (values.length === 0) {
    return <p>The script returned nothing.</p>;
  }
  return (
    <>
      {values.map((v, i) => (
        <pre key={i} class="result" tabIndex={0} aria-label={values.length === 1 ? 'Result' : `Result ${i + 1}`}>{pretty(textOf(v))}</pre>
      ))}
    </>
  );
};

const Logs = ({ result }: { result: TryResult }) => {
  if (result.logs.length === 0) {
    return <p class="faint">It logged nothing.</p>;
  }
  return (
    <>
      <h3>Logs</h3>
      <ol class="loglines" aria-label="Logs">
        {result.logs.map((l, i) => (
          <li key={i}>
            <Time at={l.time} clock /> <span class={['tag', l.level === 'error' ? 'bad' : l.level === 'warn' ? 'warn' : '']}>{l.level}</span> <span class="mono">{l.message}</span>
          </li>
        ))}
      </ol>
      {result.droppedLogs > 0n && <p class="faint">{count(result.droppedLogs)} more lines are left out.</p>}
    </>
  );
};

/** ErrorView shows why a call failed. Its lines lead to the source. */
export const ErrorView = component$(({ error }: { error: ScriptError }) => {
  const bench = useBench();
  const go = $((line: number) => {
    bench.view.value = 'source';
    bench.place.value = { line, column: error.line === line ? error.column : 0 };
  });
  return (
    <div class="error" role="alert">
      <strong>{error.kind}</strong> {text(error)}
      {error.line > 0 && (
        <>
          {' '}
          <button type="button" class="link" onClick$={() => go(error.line)}>Line {error.line}</button>
        </>
      )}
      {error.stack.length > 0 && (
        <ol class="stack" aria-label="Stack">
          {error.stack.map((f, i) => (
            <li key={i}>
              <code>{f.function || 'the call'}</code> {f.line > 0 && <button type="button" class="link" onClick$={() => go(f.line)}>line {f.line}</button>}
            </li>
          ))}
        </ol>
      )}
    </div>
  );
});
