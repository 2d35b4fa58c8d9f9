import { $, component$, useComputed$, type Signal } from '@builder.io/qwik';
import { usePoll } from '~/live/poll';
import { ChoiceFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { Problem } from '~/ui/problem';
import { Chart, Figures, measureOf, measures } from './chart';
import { spans, usage } from './usage';

const pause = 30_000; // as often as agents report

/** UsagePanel shows what the calls of a tenant used. */
export const UsagePanel = component$<{ tenant: string; url: Signal<URL | undefined> }>(({ tenant, url }) => {
  const query = useComputed$(() => url.value && { tenant, span: param(url.value, 'span') });
  const { found: bars, failure } = usePoll(
    query,
    pause,
    $((q: { tenant: string; span: string }, signal: AbortSignal) => usage(q.tenant, spans[q.span] ?? spans['']!, signal)),
  );

  const measure = measureOf(param(url.value, 'measure'));
  return (
    <section class="card" aria-labelledby="usage">
      <div class="head">
        <h2 id="usage">Usage</h2>
        <div class="end tools">
          <ChoiceFilter label="Show" name="measure" value={param(url.value, 'measure')} options={measures} />
          <ChoiceFilter label="Of" name="span" value={param(url.value, 'span')} options={Object.entries(spans).map(([v, s]): [string, string] => [v, s.title])} />
        </div>
      </div>
      <Problem failure={failure.value} />
      {bars.value ? (
        <>
          <Chart bars={bars.value} measure={measure} title={measures.find(([v]) => v === param(url.value, 'measure'))?.[1] ?? 'Calls'} />
          <Figures bars={bars.value} />
        </>
      ) : (
        !failure.value && <p class="faint chart">Adding up…</p>
      )}
    </section>
  );
});
