import { Link } from '@builder.io/qwik-city';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import { Candidacy } from '~/script/header';
import { scriptHref } from '~/script/name';
import { duration, rate } from '~/ui/number';
import { Sparkline } from '~/ui/sparkline';
import { Time } from '~/ui/time';
import type { Health } from './health';

/** Row is one script of the list. */
export const Row = ({ script, health, index }: { script: ScriptStatus; health: Health | undefined; index: number }) => {
  const r = script.release;
  const name = `${r?.tenant}/${r?.name}`;
  const now = health?.now;
  return (
    <tr key={name} aria-rowindex={index + 2}>
      <td class="name"><Link href={scriptHref(name)} prefetch={false}>{name}</Link></td>
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
