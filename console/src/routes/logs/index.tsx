import { $, component$, useComputed$, useSignal } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { Freshness } from '~/live/freshness';
import { ages, filterOf } from '~/logs/filter';
import { Lines } from '~/logs/lines';
import { Notices } from '~/logs/notices';
import { useTail } from '~/logs/tail';
import { textOf } from '~/logs/text';
import { ChoiceFilter, TextFilter } from '~/shell/filters';
import { param } from '~/shell/query';
import { useUrl } from '~/shell/url';
import { TenantChooser } from '~/tenants/chooser';
import { count } from '~/ui/number';
import { Problem } from '~/ui/problem';
import { fileTime, save } from '~/ui/save';

const levels: [string, string][] = [['', 'All'], ['warn', 'Warnings and errors'], ['error', 'Errors']];
const tails: [string, string][] = [['', 'New lines, too'], ['off', 'Only earlier ones']];

export default component$(() => {
  const url = useUrl();
  const filter = useComputed$(() => filterOf(url.value));
  const reload = useSignal(0);
  const atEnd = useSignal(true);
  const copied = useSignal('');
  const t = useTail(filter, reload);

  const copy = $(async () => {
    try {
      await navigator.clipboard.writeText(textOf(t.lines.value));
      copied.value = `Copied ${count(t.lines.value.length)} lines`;
    } catch {
      copied.value = 'The browser did not allow it: download the lines instead';
    }
  });
  const download = $(() => save(`logs-${filter.value?.tenant ?? ''}-${fileTime()}.txt`, 'text/plain;charset=utf-8', [textOf(t.lines.value)]));

  const at = url.value;
  return (
    <>
      <div class="head">
        <h1>Logs</h1>
        {filter.value && <Freshness live={t.live.value} />}
      </div>
      <div class="tools pairs">
        <TenantChooser value={param(at, 'tenant')} />
        <TextFilter label="Script" name="name" value={param(at, 'name')} placeholder="all of the tenant" />
        <TextFilter label="Agents" name="agents" value={param(at, 'agents')} placeholder="edge-*, node-7" />
        <ChoiceFilter label="Level" name="level" value={param(at, 'level')} options={levels} />
        <TextFilter label="Message matches (RE2)" name="grep" value={param(at, 'grep')} placeholder="timeout|refused" />
        <TextFilter label="Version" name="version" value={param(at, 'version')} placeholder="all" type="number" />
        <ChoiceFilter label="From" name="since" value={param(at, 'since')} options={ages} />
        <ChoiceFilter label="Show" name="tail" value={param(at, 'tail')} options={tails} />
      </div>
      <Problem failure={t.failure.value} />
      {at && !filter.value && (
        <div class="card empty">
          <h2>Choose a tenant</h2>
          <p>The page shows what the scripts of a tenant log on all agents. In a script:</p>
          <pre>log.info("cart", request.path)</pre>
        </div>
      )}
      {filter.value && (
        <>
          <div class="line-tools">
            {filter.value.tail ? (
              <button type="button" aria-pressed={t.paused.value} onClick$={() => (t.paused.value = !t.paused.value)}>
                {t.paused.value ? `Resume (${count(t.held.value)} new)` : 'Pause'}
              </button>
            ) : (
              <button type="button" onClick$={() => reload.value++}>Load again</button>
            )}
            <button type="button" onClick$={copy} disabled={t.lines.value.length === 0}>Copy as text</button>
            <button type="button" onClick$={download} disabled={t.lines.value.length === 0}>Download</button>
            {!atEnd.value && <button type="button" onClick$={() => (atEnd.value = true)}>Go to the end</button>}
            <span class="faint" role="status">{copied.value || `${count(t.lines.value.length)} lines`}</span>
          </div>
          <Notices before={t.before.value} dropped={t.dropped.value} missed={t.missed.value} />
          {t.lines.value.length === 0 && t.before.value && <p class="faint">No script has logged a line like this in that time.{filter.value.tail && ' New lines appear here.'}</p>}
          <Lines lines={t.lines.value} dropped={t.dropped.value} atEnd={atEnd} />
        </>
      )}
    </>
  );
});

export const head: DocumentHead = { title: 'Logs' };
