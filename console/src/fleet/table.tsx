import { component$ } from '@builder.io/qwik';
import type { AgentStatus } from '~/gen/proto/registry/v1/registry_pb';
import { scriptHref } from '~/script/name';
import { Link } from '~/shell/link';
import { agentHref } from '~/shell/query';
import { Sorted } from '~/shell/sorted';
import { bytes, duration } from '~/ui/number';
import { plain } from '~/ui/plain';
import { LongTable, rowIndex } from '~/ui/table';
import type { Window } from '~/ui/window';
import { Tags } from './state';

interface Props {
  url: URL | undefined;
  rows: Map<number, AgentStatus>;
  total: number;
  seen: Window;
}

export const AgentTable = component$<Props>(({ url, rows, total, seen }) => (
  <LongTable
    label="Agents"
    columns={8}
    seen={seen}
    total={total}
    head={
      <>
        <Sorted url={url} by="name" title="Agent" />
        <th scope="col">State</th>
        <Sorted url={url} by="software" title="Software" spare />
        <Sorted url={url} by="-lag" title="Revision" number />
        <Sorted url={url} by="-failed" title="First failure" />
        <th scope="col" class="spare">Disk</th>
        <th scope="col" class="spare">Keys in use</th>
        <th scope="col" class="spare">Labels</th>
      </>
    }
    row={(at) => {
      const agent = rows.get(at);
      return agent && <Row at={at} agent={agent} />;
    }}
  />
));

const Row = ({ agent: a, at }: { agent: AgentStatus; at: number }) => {
  const labels = Object.entries(a.labels).map(([k, v]) => `${k}=${v}`);
  return (
    <tr key={a.agent} aria-rowindex={rowIndex(at)}>
      <td><Link href={agentHref(a.agent)}>{plain(a.agent)}</Link></td>
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
      <Link href={scriptHref(`${f.tenant}/${f.name}`)}>{plain(`${f.tenant}/${f.name}`)}{line > 0 && `:${line}`}</Link> <span class="faint">{plain(f.error?.message ?? '')}</span>
    </span>
  );
};
