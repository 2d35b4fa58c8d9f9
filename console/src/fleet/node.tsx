import { component$ } from '@builder.io/qwik';
import type { AgentStatus, ScriptFailure } from '~/gen/proto/registry/v1/registry_pb';
import { scriptHref } from '~/script/name';
import { Link } from '~/shell/link';
import { bytes, count, duration } from '~/ui/number';
import { plain, plainLines } from '~/ui/plain';
import { adviceOf } from './next';

/** Advices shows what an operator does next. */
export const Advices = component$<{ agent: AgentStatus }>(({ agent }) => {
  const all = adviceOf(agent);
  return (
    <section class="card" aria-labelledby="next">
      <h2 id="next">What to do next</h2>
      {all.length === 0 && <p class="good">Nothing: the agent runs all that it should.</p>}
      {all.map((a) => (
        <div key={a.title}>
          <h3>{a.title}</h3>
          <p>{plain(a.text)}</p>
          {a.command && <pre class="command">{a.command}</pre>}
        </div>
      ))}
    </section>
  );
});

/** Facts shows the last report of the agent. */
export const Facts = ({ agent: a, head }: { agent: AgentStatus; head: bigint }) => (
  <section class="card" aria-labelledby="facts">
    <h2 id="facts">What it reported</h2>
    <dl class="facts">
      <dt>Software</dt><dd>{plain(a.software) || <span class="faint">not known</span>}</dd>
      <dt>Revision</dt>
      <dd>
        {String(a.activatedRevision)} {a.foreignFleet ? '' : `of ${head}`}
        {a.behind > 0 && <span class="warn">, {count(a.behind)} releases behind for {duration(a.lag)}</span>}
      </dd>
      <dt>Heard</dt><dd>{a.unknown ? <span class="bad">not for {duration(a.unheardFor)}</span> : 'within the last 15 s'}</dd>
      {a.foreignFleet && <><dt>Fleet</dt><dd class="bad">{plain(a.foreignFleet)}</dd></>}
      <dt>Tenants</dt><dd>{a.tenants.length > 0 ? a.tenants.map(plain).join(', ') : 'all'}</dd>
      <dt>Labels</dt><dd><Labels labels={a.labels} /></dd>
      <dt>Drift</dt><dd>{a.drifts > 0n ? `differed from the registry ${count(a.drifts)} times since its start` : 'none since its start'}</dd>
      <Disk agent={a} />
      <dt>Keys in use</dt>
      <dd>
        {a.diskKeys.length === 0 && <span class="faint">none</span>}
        <ul class="bare mono">{a.diskKeys.map((k) => <li key={k}>{plain(k)}</li>)}</ul>
        {a.diskKeys.length > 0 && <span class="faint">What is on its disk is signed by these. Keep them trusted until no agent needs them.</span>}
      </dd>
    </dl>
  </section>
);

const Labels = ({ labels }: { labels: Record<string, string> }) => {
  const all = Object.entries(labels).sort();
  return all.length > 0 ? (
    <span class="tags wrap">{all.map(([k, v]) => <Link key={k} class="tag" href={`/fleet/?q=${encodeURIComponent(`${k}=${v}`)}`}>{plain(`${k}=${v}`)}</Link>)}</span>
  ) : (
    <span class="faint">none</span>
  );
};

const Disk = ({ agent: { disk: d } }: { agent: AgentStatus }) => (
  <>
    <dt>Disk</dt>
    <dd>
      {!d && <span class="faint">not known: the agent is too old to say it</span>}
      {d?.fault && <span class="bad">cannot be written: {plain(d.fault)}. </span>}
      {d && d.sizeBytes > 0n && (
        <>
          <meter aria-label="Used part of the disk" min={0} max={Number(d.sizeBytes)} high={0.9 * Number(d.sizeBytes)} optimum={0} value={Number(d.sizeBytes - d.freeBytes)} />{' '}
          {bytes(d.freeBytes)} of {bytes(d.sizeBytes)} free
        </>
      )}
    </dd>
  </>
);

/** Failures lists the releases that the agent could not activate. */
export const Failures = ({ agent: a }: { agent: AgentStatus }) =>
  a.failures.length === 0 ? null : (
    <section aria-labelledby="failures">
      <h2 id="failures">Failures</h2>
      <div class="viewport" tabIndex={0} role="region" aria-label="Releases that failed">
        <table>
          <thead><tr><th scope="col">Script</th><th scope="col">Line</th><th scope="col">Kind</th><th scope="col">Why</th><th scope="col">Revision</th></tr></thead>
          <tbody>{a.failures.map((f) => <Failed key={`${f.tenant}/${f.name}`} f={f} />)}</tbody>
        </table>
      </div>
      {a.failed > a.failures.length && <p class="faint">The agent named {a.failures.length} of {count(a.failed)} failures.</p>}
    </section>
  );

const Failed = ({ f }: { f: ScriptFailure }) => {
  const line = f.error?.line ?? 0;
  const name = `${f.tenant}/${f.name}`;
  return (
    <tr>
      <td><Link href={scriptHref(name)}>{plain(name)}</Link></td>
      <td>{line > 0 ? `${line}${f.error?.column ? `:${f.error.column}` : ''}` : ''}</td>
      <td>{plain(f.error?.kind ?? '')}</td>
      <td class="wrap">{f.error?.field && <code>{plain(f.error.field)}: </code>}{plainLines(f.error?.message ?? '')}</td>
      <td class="number">{String(f.revision)}</td>
    </tr>
  );
};
