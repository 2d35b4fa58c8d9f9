import { $, component$ } from '@builder.io/qwik';
import { placeOf, text } from '~/api/failure';
import { useBench, type View } from './bench';
import type { Problem } from './problem';
import { yaml } from './unfinished';

/** Problems lists the registry's errors and warnings about the draft. Each of them leads to its place. */
export const Problems = component$(() => {
  const bench = useBench();
  const { state, problems, failure } = bench.check.value;
  const go = $((p: Problem) => {
    bench.view.value = viewOf(p);
    if (p.line > 0) {
      bench.place.value = { line: p.line, column: p.column };
    }
  });
  if (yaml in bench.unfinished.value) {
    return <p class="faint" role="status">The registry checks the draft when the YAML has no problems.</p>;
  }
  return (
    <section class="problems" aria-label="Problems">
      <p class="faint" role="status">
        {state === 'done' && (problems.length === 0 ? 'The registry finds no problem.' : `The registry finds ${problems.length === 1 ? 'one problem' : `${problems.length} problems`}:`)}
        {(state === 'checking' || state === 'waiting') && 'The registry checks the draft…'}
        {state === 'failed' && failure && `Not checked: ${text(failure)}`}
      </p>
      <ul>
        {problems.map((p, i) => (
          <li key={i}>
            <span class={['tag', p.severity === 'error' ? 'bad' : 'warn']}>{p.severity}</span>{' '}
            <button type="button" class="link" onClick$={() => go(p)}>
              {placeOf(p) ? placeOf(p) + p.message : text(p)}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
});

/** viewOf is the tab that has what a problem is about. */
function viewOf(p: Problem): View {
  if (p.line > 0 || !p.field.startsWith('settings.')) {
    return 'source';
  }
  const [, part = ''] = p.field.split('.');
  return part === 'tests' || part === 'rollout' ? part : 'settings';
}
