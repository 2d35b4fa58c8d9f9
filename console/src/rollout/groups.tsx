import { component$, type Signal } from '@builder.io/qwik';
import type { RolloutGroup, WatchRolloutResponse } from '~/gen/proto/registry/v1/registry_pb';
import { Link } from '~/shell/link';
import { hrefWith } from '~/shell/query';
import { count } from '~/ui/number';
import { states } from './watch';

interface Props {
  message: WatchRolloutResponse;
  url: Signal<URL | undefined>;
}

/** Groups counts agents by the value of a label. A group links to its agents. */
export const Groups = component$<Props>(({ message: m, url }) => (
  <div class="viewport short" role="region" aria-label="Agents by a label" tabIndex={0}>
    <table>
      <thead>
        <tr>
          <th scope="col">{m.groupBy || 'All'}</th><th scope="col" class="number">Agents</th><th scope="col">States</th>
          {states.map((s) => <th key={s.word} scope="col" class="number" title={s.title}>{s.sign} {s.word}</th>)}
        </tr>
      </thead>
      <tbody>
        {m.groups.map((g) => (
          <tr key={g.value}>
            <td>
              {url.value && <Link href={hrefWith(url.value, { group: g.value, state: undefined, from: undefined })}>{g.value || (m.groupBy ? 'without the label' : 'all agents')}</Link>}
            </td>
            <Counts group={g} />
          </tr>
        ))}
        {m.others && (
          <tr>
            <td class="faint">{count(m.otherGroups)} other groups</td>
            <Counts group={m.others} />
          </tr>
        )}
      </tbody>
    </table>
  </div>
));

const Counts = ({ group: g }: { group: RolloutGroup }) => (
  <>
    <td class="number">{count(g.agents)}</td>
    <td><Bar group={g} /></td>
    {states.map((s) => <td key={s.word} class="number">{g[s.word] > 0 ? count(g[s.word]) : ''}</td>)}
  </>
);

const width = 120;

/** Bar is hidden from screen readers: the figures are beside it. */
const Bar = ({ group: g }: { group: RolloutGroup }) => {
  let at = 0;
  return (
    <svg class="states" width={width} height={12} viewBox={`0 0 ${width} 12`} aria-hidden="true">
      {states.map((s) => {
        const w = (g[s.word] / Math.max(g.agents, 1)) * width;
        const x = at;
        at += w;
        return w > 0 ? <rect key={s.word} class={s.word} x={x} y={0} width={w} height={12} /> : null;
      })}
    </svg>
  );
};
