import { $, component$, noSerialize, useSignal, type NoSerialize } from '@builder.io/qwik';
import { failureOf, type Failure } from '~/api/failure';
import { count } from '~/ui/number';
import { Problem } from '~/ui/problem';
import { fileTime, save } from '~/ui/save';
import { load, type Filter } from './pages';
import { csvHead, csvLine, recordOf } from './record';

type Format = 'csv' | 'json';

const page = 1000;

/** Export saves all writes that match the filter, also those that the page has not loaded. */
export const Export = component$<{ filter: Filter | undefined }>(({ filter }) => {
  const done = useSignal(0);
  const running = useSignal<NoSerialize<AbortController>>();
  const failure = useSignal<Failure>();
  const said = useSignal('');

  const start = $(async (format: Format) => {
    if (!filter || running.value) {
      return;
    }
    const abort = new AbortController();
    running.value = noSerialize(abort);
    done.value = 0;
    failure.value = undefined;
    said.value = '';
    try {
      const parts = await collect(filter, format, abort.signal, (n) => (done.value = n));
      save(`audit-${filter.tenant || 'all'}-${fileTime()}.${format}`, format === 'csv' ? 'text/csv;charset=utf-8' : 'application/json', parts);
      said.value = `Saved ${count(done.value)} entries.`;
    } catch (error) {
      failure.value = failureOf(error);
      said.value = abort.signal.aborted ? 'The export was cancelled.' : '';
    } finally {
      running.value = undefined;
    }
  });

  return (
    <>
      <span role="status" class="faint">{running.value ? `${count(done.value)} entries so far…` : said.value}</span>
      {running.value ? (
        <button type="button" onClick$={() => running.value?.abort()}>Cancel</button>
      ) : (
        <>
          <button type="button" disabled={!filter} onClick$={() => start('csv')}>Export CSV</button>
          <button type="button" disabled={!filter} onClick$={() => start('json')}>Export JSON</button>
        </>
      )}
      <Problem failure={failure.value} />
    </>
  );
});

/** collect makes one blob of each page, which the browser can keep on its disk. */
async function collect(f: Filter, format: Format, signal: AbortSignal, progress: (n: number) => void): Promise<Blob[]> {
  const parts: Blob[] = [new Blob([format === 'csv' ? csvHead : '['])];
  let n = 0;
  for (let token = ''; ; ) {
    const { items, next } = await load(f, token, page, signal);
    const text = format === 'csv' ? items.map(csvLine).join('') : items.map((e, i) => `${n + i > 0 ? ',\n' : '\n'}${JSON.stringify(recordOf(e))}`).join('');
    parts.push(new Blob([text]));
    n += items.length;
    progress(n);
    if (!next) {
      return [...parts, new Blob([format === 'csv' ? '' : '\n]\n'])];
    }
    token = next;
  }
}
