import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { RolloutState, type WatchRolloutResponse } from '~/gen/proto/registry/v1/registry_pb';
import { connecting, follow, type Live } from '~/live/follow';
import { nameOf } from '~/script/name';

/** Choice selects the agents that the page shows. It comes from the URL. */
interface Choice {
  /** The label that agents are grouped by; empty for the registry's default. */
  by: string;
  group: string | undefined;
  state: RolloutState;
  offset: number;
}

/** cells is how many agents a page shows one by one. Larger fleets begin with groups. */
export const cells = 240;

export function choiceOf(url: URL | undefined): Choice {
  const q = url?.searchParams;
  return {
    by: q?.get('by') ?? '',
    group: q?.get('group') ?? undefined,
    state: states.find((s) => s.word === q?.get('state'))?.state ?? RolloutState.UNSPECIFIED,
    offset: Math.max(0, Number.parseInt(q?.get('from') ?? '0', 10) || 0),
  };
}

/** StateOf is how the page shows the state of an agent: with a word, a sign and a colour. */
interface StateOf {
  state: RolloutState;
  word: 'failed' | 'lost' | 'unknown' | 'waiting' | 'candidate' | 'passed' | 'active';
  sign: string;
  title: string;
}

export const states: StateOf[] = [
  { state: RolloutState.FAILED, word: 'failed', sign: '✕', title: 'failed: it could not activate the release, or a test failed there' },
  { state: RolloutState.LOST, word: 'lost', sign: '!', title: 'lost: it ended while it ran or tested the candidate' },
  { state: RolloutState.UNKNOWN, word: 'unknown', sign: '?', title: 'unknown: not heard for 15 s' },
  { state: RolloutState.WAITING, word: 'waiting', sign: '…', title: 'waiting: it has yet to activate the release, or to test the candidate' },
  { state: RolloutState.CANDIDATE, word: 'candidate', sign: '▲', title: 'candidate: it runs the candidate' },
  { state: RolloutState.PASSED, word: 'passed', sign: '✓', title: 'passed: the tests passed there, and it runs the active version' },
  { state: RolloutState.ACTIVE, word: 'active', sign: '■', title: 'active: it runs the active version' },
];

const unsure: StateOf = { state: RolloutState.UNSPECIFIED, word: 'unknown', sign: '?', title: 'a state that this console does not know' };

export const stateOf = (state: RolloutState): StateOf => states.find((s) => s.state === state) ?? unsure;

/** useRollout follows the rollout of the script in the URL. It requests single agents only where the page shows them. */
export function useRollout(url: Signal<URL | undefined>) {
  const message = useSignal<WatchRolloutResponse>();
  const shown = useSignal('');
  const large = useSignal(false);
  const live = useSignal<Live>(connecting());

  useVisibleTask$(({ track, cleanup }) => {
    const { tenant, name } = nameOf(track(() => url.value));
    const { by, group, state, offset } = choiceOf(url.value);
    const single = !track(() => large.value) || group !== undefined || state !== RolloutState.UNSPECIFIED;
    if (shown.value !== `${tenant}/${name}`) {
      message.value = undefined; // It is about another script.
      shown.value = `${tenant}/${name}`;
    }
    if (!name) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    const request = { tenant, name, groupBy: by, agents: single ? cells : 0, offset, state, ...(group !== undefined && { group }) };
    void follow(
      abort.signal,
      live,
      (signal) => registry().watchRollout(request, { signal }),
      (next) => {
        message.value = next;
        large.value = sum(next) > cells;
      },
    );
  }, { strategy: 'document-ready' });
  return { message, large, live };
}

/** sum is the number of all agents. */
export const sum = (m: WatchRolloutResponse): number => m.groups.reduce((n, g) => n + g.agents, 0) + (m.others?.agents ?? 0);
