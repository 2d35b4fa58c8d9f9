import { component$ } from '@builder.io/qwik';
import type { TryResult } from '~/gen/proto/event/v1/try_pb';
import { duration } from '~/ui/number';
import { ErrorView } from './result';

/** TestOutcomes shows which tests passed, and where results differ. */
export const TestOutcomes = component$(({ results }: { results: TryResult[] }) => {
  const failed = results.filter((r) => !r.test?.passed).length;
  return (
    <>
      <p role="status">
        <strong>{failed === 0 ? (results.length === 1 ? 'The test passed.' : `All ${results.length} tests passed.`) : `${failed} of ${results.length} tests failed.`}</strong>
      </p>
      <ul class="outcomes" aria-label="Tests">
        {results.map((r, i) => (
          <li key={i}>
            <span class={['tag', r.test?.passed ? 'good' : 'bad']}>{r.test?.passed ? 'passed' : 'failed'}</span> {r.test?.name} <span class="faint">{duration(r.took)}</span>
            {!r.test?.passed && <Why result={r} />}
          </li>
        ))}
      </ul>
    </>
  );
});

const Why = ({ result }: { result: TryResult }) => {
  const { test } = result;
  if (!test || test.differences.length === 0) {
    const error = result.error ?? test?.why;
    return error ? <ErrorView error={error} /> : null;
  }
  return (
    <div class="viewport">
      <table>
        <thead>
          <tr><th scope="col">Path</th><th scope="col">Want</th><th scope="col">Got</th></tr>
        </thead>
        <tbody>
          {test.differences.map((d, i) => (
            <tr key={i}>
              <td class="wrap mono">{d.path || 'the result'}</td>
              <td class="wrap mono">{d.want || 'nothing'}</td>
              <td class="wrap mono">{d.got || 'nothing'}</td>
            </tr>
          ))}
          {test.moreDifferences && <tr><td colSpan={3} class="faint">There are more differences.</td></tr>}
        </tbody>
      </table>
    </div>
  );
};
