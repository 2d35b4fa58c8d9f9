import { component$ } from '@builder.io/qwik';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import { Candidacy } from '~/script/header';
import { scriptHref } from '~/script/name';
import { Link } from '~/shell/link';
import { Sorted } from '~/shell/sorted';
import { duration, rate } from '~/ui/number';
import { Sparkline } from '~/ui/sparkline';
import { LongTable, rowIndex } from '~/ui/table';
import { Time } from '~/ui/time';
import type { Window } from '~/ui/window';
import type { Health } from './health';

interface Props {
  url: URL | undefined;
  rows: Map<number, ScriptStatus>;
  total: number;
  health: Map<string, Health>;
  seen: Window;
}

export const ScriptTable = component$<Props>(({ url, rows, total, health, seen }) => (
  <LongTable
    label="Scripts"
    tall
    kind="scripts"
    columns={9}
    seen={seen}
    total={total}
    head={
      <>
        <Sorted url={url} by="name" title="Script" />
        <th scope="col" class="spare">Trigger</th>
        <th scope="col" class="number">Version</th>
        <th scope="col">State</th>
        <th scope="col" class="calls">Calls</th>
        <th scope="col" class="number spare">Errors</th>
        <th scope="col" class="number spare">p99</th>
        <Sorted url={url} by="-failing" title="Agents" number />
        <Sorted url={url} by="-changed" title="Changed" spare />
      </>
    }
    row={(at) => {
      const script = rows.get(at);
      return script && <Row script={script} health={health.get(nameOf(script))} at={at} />;
    }}
  />
));

const nameOf = ({ release: r }: ScriptStatus): string => `${r?.tenant}/${r?.name}`;

const Row = ({ script, health, at }: { script: ScriptStatus; health: Health | undefined; at: number }) => {
  const r = script.release;
  const name = nameOf(script);
  const now = health?.now;
  return (
    <tr key={name} aria-rowindex={rowIndex(at)}>
      <td class="name"><Link href={scriptHref(name)}>{name}</Link></td>
      <td class="spare">{r?.settings?.trigger?.event}</td>
      <td class="number">{r?.active ? String(r.active.number) : ''}</td>
      <td><Candidacy status={script} /></td>
      <td class="calls">{health && <><Sparkline points={health.calls} /> {rate(now?.callsPerSecond ?? 0)}/s</>}</td>
      <td class="number spare">{now && <span class={{ bad: now.errorsPerSecond > 0 }}>{rate(now.errorsPerSecond)}/s</span>}</td>
      <td class="number spare">{duration(now?.p99)}</td>
      <td class="number"><span class={{ bad: script.failed > 0 }}>{script.active}/{script.desired}</span></td>
      <td class="spare"><Time at={r?.changedAt} /></td>
    </tr>
  );
};
