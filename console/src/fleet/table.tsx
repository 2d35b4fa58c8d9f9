import { component$ } from '@builder.io/qwik';
import { Link } from '@builder.io/qwik-city';
import type { AgentStatus } from '~/gen/proto/registry/v1/registry_pb';
import { scriptHref } from '~/script/name';
import { changed, param } from '~/shell/query';
import { bytes, duration } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Spacer } from '~/ui/spacer';
import type { Window } from '~/ui/window';
import { agentHref, Tags } from './state';

interface Props {
  url: URL | undefined;
  rows: Map<number, AgentStatus>;
  total: number;
  seen: Window;
}

const columns = 8;

/** AgentTable has those rows alone that a person sees. */
export const AgentTable = component$<Props>(({ url, rows, total, seen }) => {
  const from = Math.min(seen.from.value, total);
  const to = Math.min(seen.to.value, total);
  const shown = Array.from({ length: to - from }, (_, i) => from + i);
  return (
    <div class="viewport windowed" ref={seen.viewport} onScroll$={seen.onScroll$} tabIndex={0} role="region" aria-label="Agents">
      <table aria-rowcount={total + 1}>
        <thead>
          <tr>
            <Sorted url={url} by="name" title="Agent" />
            <th scope="col">State</th>
            <Sorted url={url} by="software" title="Software" spare />
            <Sorted url={url} by="-lag" title="Revision" />
            <Sorted url={url} by="-failed" title="First failure" />
            <th scope="col" class="spare">Disk</th>
            <th scope="col" class="spare">Keys in use</th>
            <th scope="col" class="spare">Labels</th>
          </tr>
        </thead>
        <tbody>
          <Spacer rows={from} height={seen.rowHeight} columns={columns} />
          {shown.map((i) => {
            const agent = rows.get(i);
            return agent ? <Row key={agent.agent} at={i} agent={agent} /> : <tr key={`at-${i}`} class="skeleton" aria-rowindex={i + 2}><td colSpan={columns}></td></tr>;
          })}
          <Spacer rows={total - to} height={seen.rowHeight} columns={columns} />
        </tbody>
      </table>
    </div>
  );
});

const Row = ({ agent: a, at }: { agent: AgentStatus; at: number }) => {
  const labels = Object.entries(a.labels).map(([k, v]) => `${k}=${v}`);
  return (
    <tr aria-rowindex={at + 2}>
      <td><Link prefetch={false} href={agentHref(a.agent)}>{plain(a.agent)}</Link></td>
      <td class="tags"><Tags agent={a} /></td>
      <td class="spare">{plain(a.software)}</td>
      <td class="number">{String(a.activatedRevision)}{a.behind > 0 && <span class="warn"> {duration(a.lag)} late</span>}</td>
      <td><FirstFailure agent={a} /></td>
      <td class="spare">{a.disk ? a.disk.fault ? <span class="bad" title={plain(a.disk.fault)}>cannot be written</span> : `${bytes(a.disk.freeBytes)} free` : <span class="faint">not known</span>}</td>
      <td class="mono spare" title={a.diskKeys.map(plain).join('\n')}>{a.diskKeys.map((k) => plain(k).slice(0, 8)).join(' ')}</td>
      <td class="clip spare" title={labels.map(plain).join('\n')}>{labels.map(plain).join(' ')}</td>
    </tr>
  );
};

const FirstFailure = ({ agent: { failures } }: { agent: AgentStatus }) => {
  const [f] = failures;
  if (!f) {
    return null;
  }
  const line = f.error?.line ?? 0;
  return (
    <span class="clip" title={plain(f.error?.message ?? '')}>
      <Link prefetch={false} href={scriptHref(`${f.tenant}/${f.name}`)}>{plain(`${f.tenant}/${f.name}`)}{line > 0 && `:${line}`}</Link> <span class="faint">{plain(f.error?.message ?? '')}</span>
    </span>
  );
};

interface SortedProps {
  url: URL | undefined;
  /** The parameter of the URL that a first click sets. A second click turns the order. */
  by: string;
  title: string;
  spare?: boolean;
}

const Sorted = ({ url, by, title, spare }: SortedProps) => {
  const now = param(url, 'sort') || 'name';
  const column = by.replace(/^-/, '');
  const here = now.replace(/^-/, '') === column;
  const next = !here ? by : now.startsWith('-') ? column : `-${column}`;
  const to = url && changed(url, { sort: next === 'name' ? '' : next });
  return (
    <th scope="col" class={{ spare }} aria-sort={here ? (now.startsWith('-') ? 'descending' : 'ascending') : undefined}>
      <Link href={to ? to.pathname + to.search : '/fleet/'} replaceState scroll={false} prefetch={false}>{title}</Link>
    </th>
  );
};
