import { $, component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { Link, useNavigate, type DocumentHead } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import type { ScriptRates, ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import { connecting, poll, type Live } from '~/live/follow';
import { Freshness } from '~/live/freshness';
import { scriptHref } from '~/script/name';
import { useUrl } from '~/shell/url';
import { duration, rate } from '~/ui/number';
import { Sparkline } from '~/ui/sparkline';
import { Time } from '~/ui/time';

const kept = 40;

interface Health {
  now: ScriptRates | undefined;
  calls: number[];
}

export default component$(() => {
  const rows = useSignal<ScriptStatus[]>();
  const health = useSignal<Record<string, Health>>({});
  const live = useSignal<Live>(connecting());
  const url = useUrl();
  const navigate = useNavigate();

  // eslint-disable-next-line qwik/no-use-visible-task
  useVisibleTask$(({ cleanup }) => {
    const abort = new AbortController();
    cleanup(() => abort.abort());
    void poll(abort.signal, live, 2000, async (signal) => {
      const { status } = await registry().status({ pageSize: 1000 }, { signal });
      rows.value = status?.scripts ?? [];
    });
    void poll(abort.signal, live, 500, async (signal) => {
      const { scripts } = await registry().top({ limit: 1000 }, { signal });
      health.value = add(health.value, scripts);
    });
  });

  const q = url.value?.searchParams.get('q') ?? '';
  const find = $((_: Event, input: HTMLInputElement) => navigate(input.value ? `/?q=${encodeURIComponent(input.value)}` : '/', { replaceState: true, scroll: false }));
  const shown = rows.value?.filter((s) => `${s.release?.tenant}/${s.release?.name}`.includes(q));

  return (
    <>
      <div class="head">
        <h1>Scripts</h1>
        <Freshness live={live.value} />
        <div class="end"><Link class="button primary" href="/script/new/">New script</Link></div>
      </div>
      <div class="tools">
        <label>Search <input type="search" value={q} onInput$={find} placeholder="acme/route" /></label>
      </div>
      {rows.value?.length === 0 && (
        <div class="card empty">
          <h2>There are no scripts yet</h2>
          <p>Write one here, or publish a file:</p>
          <pre>scriptctl publish acme/hello hello.lua</pre>
        </div>
      )}
      {shown && shown.length > 0 && (
        <div class="viewport">
          <table>
            <thead>
              <tr>
                <th scope="col">Script</th><th scope="col">Trigger</th><th scope="col">Version</th><th scope="col">State</th>
                <th scope="col">Calls</th><th scope="col" class="number">Errors</th><th scope="col" class="number">p99</th>
                <th scope="col" class="number">Agents</th><th scope="col">Changed</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((s) => {
                const r = s.release!;
                const name = `${r.tenant}/${r.name}`;
                const h = health.value[name];
                return (
                  <tr key={name}>
                    <td><Link href={scriptHref(name)}>{name}</Link></td>
                    <td>{r.settings?.trigger?.event}</td>
                    <td>{String(r.active?.number ?? '')}</td>
                    <td>{r.candidate ? <span class="tag accent">candidate {String(r.candidate.version)}</span> : r.enabled ? '' : <span class="tag">disabled</span>}</td>
                    <td>{h ? <><Sparkline points={h.calls} /> {rate(h.now?.callsPerSecond ?? 0)}/s</> : ''}</td>
                    <td class="number">{h?.now ? `${rate(h.now.errorsPerSecond)}/s` : ''}</td>
                    <td class="number">{duration(h?.now?.p99)}</td>
                    <td class="number">{s.active}/{s.desired}</td>
                    <td><Time at={r.changedAt} /></td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
});

function add(before: Record<string, Health>, scripts: ScriptRates[]): Record<string, Health> {
  const now = new Map(scripts.map((s) => [`${s.tenant}/${s.name}`, s]));
  const names = new Set([...Object.keys(before), ...now.keys()]);
  return Object.fromEntries([...names].map((name) => [name, { now: now.get(name), calls: [...(before[name]?.calls ?? []), now.get(name)?.callsPerSecond ?? 0].slice(-kept) }]));
}

export const head: DocumentHead = { title: 'Scripts' };
