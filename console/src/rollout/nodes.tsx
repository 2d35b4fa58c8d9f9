import { $, component$, useSignal, type Signal } from '@builder.io/qwik';
import { RolloutState, type RolloutAgent, type WatchRolloutResponse } from '~/gen/proto/registry/v1/registry_pb';
import { Link, QueryLink } from '~/shell/link';
import { agentHref } from '~/shell/query';
import { count } from '~/ui/number';
import { plain } from '~/ui/plain';
import { Groups } from './groups';
import { GroupBy } from './groupby';
import { share } from './figures';
import { faultText } from './tests';
import { cells, choiceOf, stateOf, states, sum } from './watch';

interface Props {
  message: WatchRolloutResponse;
  url: Signal<URL | undefined>;
}

/** Nodes shows the state of each agent, or of groups of agents if there are many. */
export const Nodes = component$<Props>(({ message, url }) => {
  const { group, state } = choiceOf(url.value);
  const all = sum(message);
  const chosen = group !== undefined || state !== RolloutState.UNSPECIFIED;
  const single = chosen || all <= cells;
  return (
    <section class="card" aria-labelledby="nodes">
      <div class="head">
        <h2 id="nodes">Agents</h2>
        <span class="faint">{count(all)} follow the tenant</span>
        <div class="end"><GroupBy by={message.groupBy} /></div>
      </div>
      <Legend message={message} url={url} />
      {chosen && url.value && (
        <p>
          Only {group !== undefined && <span class="tag accent">{message.groupBy || 'group'}: {group || 'without the label'}</span>}{' '}
          {state !== RolloutState.UNSPECIFIED && <span class="tag accent">{stateOf(state).word}</span>}{' '}
          <QueryLink url={url.value} change={{ group: undefined, state: undefined, from: undefined }}>Show all agents</QueryLink>
        </p>
      )}
      {(message.groups.length > 1 || !single) && group === undefined && <Groups message={message} url={url} />}
      {single && <Cells message={message} url={url} />}
      {message.lost.length > 0 && <Lost agents={message.lost} />}
    </section>
  );
});

const Lost = ({ agents }: { agents: string[] }) => (
  <p class="warn">
    ! Lost since the attempt began:{' '}
    {agents.slice(0, 10).map((a, i) => <span key={a}>{i > 0 && ', '}<Link href={agentHref(a)}>{plain(a)}</Link></span>)}
    {agents.length > 10 && ` and ${agents.length - 10} more`}
  </p>
);

const Legend = ({ message: m, url }: Props) => (
  <ul class="legend">
    {states.map((s) => {
      const n = [...m.groups, ...(m.others ? [m.others] : [])].reduce((total, g) => total + g[s.word], 0);
      return (
        <li key={s.word} title={s.title}>
          <span class={['node', s.word]} aria-hidden="true">{s.sign}</span>{' '}
          {n > 0 && url.value ? <QueryLink url={url.value} change={{ state: s.word, from: undefined }}>{s.word} {count(n)}</QueryLink> : <span class="faint">{s.word} {n}</span>}
        </li>
      );
    })}
  </ul>
);

/** Cells shows agents one by one. The arrow keys move between them. */
const Cells = component$<Props>(({ message: m, url }) => {
  const selected = useSignal('');
  const { offset } = choiceOf(url.value);
  const move = $((event: KeyboardEvent, list: HTMLElement) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) {
      const all = [...list.querySelectorAll('button')];
      const next = all[all.indexOf(document.activeElement as HTMLButtonElement) + by];
      next?.focus();
    }
  });
  const shown = m.agents.find((a) => a.agent === selected.value);
  const first = shown ?? m.agents[0];
  return (
    <>
      <ul class="nodes" aria-label="Agents, one by one" onKeyDown$={move}>
        {m.agents.map((a) => {
          const s = stateOf(a.state);
          return (
            <li key={a.agent}>
              <button
                type="button"
                class={['node', s.word]}
                aria-label={`${a.agent}: ${s.word}`}
                aria-pressed={a === shown}
                title={`${a.agent}: ${s.word}`}
                tabIndex={a === first ? 0 : -1}
                onClick$={() => { selected.value = a.agent; }}
              >
                {s.sign}
              </button>
            </li>
          );
        })}
      </ul>
      {m.agents.length === 0 && <p class="faint">No agent is here.</p>}
      <Pages message={m} offset={offset} url={url} />
      <div class="chosen" role="status">
        {shown ? <Details agent={shown} by={m.groupBy} /> : m.agents.length > 0 && <p class="faint">Choose an agent to see what it says.</p>}
      </div>
    </>
  );
});

const Details = ({ agent: a, by }: { agent: RolloutAgent; by: string }) => (
  <dl class="facts">
    <dt>Agent</dt><dd><Link href={agentHref(a.agent)}>{plain(a.agent)}</Link> {by && a.group && <span class="faint">{by}={a.group}</span>}</dd>
    <dt>State</dt><dd>{stateOf(a.state).title}</dd>
    {a.error && <><dt>Why</dt><dd class="bad">{faultText(a.error)}</dd></>}
    {a.why && <><dt>Waits for</dt><dd>{a.why}</dd></>}
    <dt>Candidate’s calls</dt><dd>{a.calls > 0n ? `${count(a.calls)}, failed ${share(a.failedCalls, a.calls)}` : 'none'}</dd>
    <dt>Revision</dt><dd>{String(a.activatedRevision)}</dd>
  </dl>
);

const Pages = ({ message: m, offset, url }: Props & { offset: number }) =>
  url.value && (offset > 0 || m.totalAgents > offset + m.agents.length) ? (
    <p>
      {count(offset + 1)} to {count(offset + m.agents.length)} of {count(m.totalAgents)}{' '}
      {offset > 0 && <QueryLink url={url.value} change={{ from: offset > cells ? String(offset - cells) : undefined }}>Before</QueryLink>}{' '}
      {m.totalAgents > offset + m.agents.length && <QueryLink url={url.value} change={{ from: String(offset + cells) }}>Next</QueryLink>}
    </p>
  ) : null;
