import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import { AgentOrder, AgentState, type AgentStatus, type FindAgentsResponse } from '~/gen/proto/registry/v1/registry_pb';
import { connecting, poll, type Live } from '~/live/follow';
import { param } from '~/shell/query';
import type { Window } from '~/ui/window';

/** What the URL can filter by. */
export const states: Record<string, [AgentState, string]> = {
  troubled: [AgentState.TROUBLED, 'In trouble'],
  unknown: [AgentState.UNKNOWN, 'Unknown'],
  behind: [AgentState.BEHIND, 'Behind'],
  failing: [AgentState.FAILING, 'Failing'],
  quarantined: [AgentState.QUARANTINED, 'Scripts in quarantine'],
  held: [AgentState.HELD, 'Holding removals back'],
  disk: [AgentState.DISK, 'Disk cannot be written'],
  foreign: [AgentState.FOREIGN, 'Of another fleet'],
  fleet: [AgentState.FLEET, 'Of this fleet'],
};

export const orders: Record<string, AgentOrder> = {
  name: AgentOrder.UNSPECIFIED,
  lag: AgentOrder.LAG,
  software: AgentOrder.SOFTWARE,
  failed: AgentOrder.FAILED,
};

/** Found are the agents that a person looks for; those alone that are seen are loaded. */
export interface Found {
  /** By their places in the result. */
  rows: Signal<Map<number, AgentStatus>>;
  /** Undefined until the registry has answered. */
  total: Signal<number | undefined>;
  head: Signal<bigint>;
  failure: Signal<Failure | undefined>;
  live: Signal<Live>;
}

const pause = 2000;
const most = 200; // that one request returns
const kept = 2000;

/** useAgents loads the agents of the window, again and again. */
export function useAgents(url: Signal<URL | undefined>, seen: Window): Found {
  const rows = useSignal<Map<number, AgentStatus>>(new Map());
  const total = useSignal<number>();
  const head = useSignal(0n);
  const failure = useSignal<Failure>();
  const live = useSignal<Live>(connecting());
  const shown = useSignal('');

  useVisibleTask$(({ track, cleanup }) => {
    const at = track(() => url.value);
    const from = track(() => seen.from.value);
    const to = track(() => seen.to.value);
    if (!at) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    void poll(abort.signal, live, pause, async (signal) => {
      try {
        const { agents, response } = await load(at, from, to, signal);
        const before = shown.value === at.search && rows.value.size < kept ? rows.value : [];
        rows.value = new Map([...before, ...agents.map((a, i): [number, AgentStatus] => [from + i, a])]);
        shown.value = at.search;
        total.value = response.total;
        head.value = response.headRevision;
        failure.value = undefined;
      } catch (error) {
        failure.value = failureOf(error);
        if (failure.value.kind === 'DENIED') {
          abort.abort();
        }
        throw error;
      }
    });
  }, { strategy: 'document-ready' });
  return { rows, total, head, failure, live };
}

/** load asks again for those that did not fit into one answer. */
async function load(url: URL, from: number, to: number, signal: AbortSignal): Promise<{ agents: AgentStatus[]; response: FindAgentsResponse }> {
  const agents: AgentStatus[] = [];
  for (;;) {
    const offset = from + agents.length;
    const response = await registry().findAgents({ ...filterOf(url), offset, limit: Math.min(to - offset, most) }, { signal });
    agents.push(...response.agents);
    const end = from + agents.length;
    if (response.agents.length === 0 || end >= to || end >= response.total) {
      return { agents, response };
    }
  }
}

function filterOf(url: URL) {
  return {
    search: param(url, 'q'),
    state: states[param(url, 'state')]?.[0] ?? AgentState.UNSPECIFIED,
    order: orders[param(url, 'sort').replace(/^-/, '')] ?? AgentOrder.UNSPECIFIED,
    descending: param(url, 'sort').startsWith('-'),
  };
}
