import { component$, useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';
import { ChoiceFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { Problem } from '~/ui/problem';
import { Chart, Figures, measureOf, measures } from './chart';
import { spans, usage, type Used } from './usage';

const pause = 30_000; // as often as agents report

/** UsagePanel shows what the calls of a tenant used. */
export const UsagePanel = component$<{ tenant: string; url: Signal<URL | undefined> }>(({ tenant, url }) => {
  const bars = useSignal<Used[]>();
  const failure = useSignal<Failure>();

  useVisibleTask$(
    ({ track, cleanup }) => {
      const span = param(track(() => url.value), 'span');
      const of = track(() => tenant);
      const abort = new AbortController();
      const load = async () => {
        try {
          bars.value = await usage(of, spans[span] ?? spans['']!, abort.signal);
          failure.value = undefined;
        } catch (error) {
          if (!abort.signal.aborted) {
            failure.value = failureOf(error);
          }
        }
      };
      const timer = setInterval(() => void (document.hidden || load()), pause);
      void load();
      cleanup(() => {
        clearInterval(timer);
        abort.abort();
      });
    },
    { strategy: 'document-ready' },
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
