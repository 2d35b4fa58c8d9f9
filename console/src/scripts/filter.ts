import { ScriptOrder, ScriptState } from '~/gen/proto/registry/v1/registry_pb';
import { param, sortOf } from '~/shell/query';

/** The words for the states, in the URL and for people. */
const states: { word: string; title: string; state: ScriptState }[] = [
  { word: '', title: 'any', state: ScriptState.UNSPECIFIED },
  { word: 'candidate', title: 'has a candidate', state: ScriptState.CANDIDATE },
  { word: 'candidate-failed', title: 'candidate failed', state: ScriptState.CANDIDATE_FAILED },
  { word: 'failing', title: 'fails on agents', state: ScriptState.FAILING },
  { word: 'not-converged', title: 'not on all agents', state: ScriptState.NOT_CONVERGED },
  { word: 'held', title: 'held', state: ScriptState.HELD },
  { word: 'disabled', title: 'disabled', state: ScriptState.DISABLED },
  { word: 'unreadable', title: 'record cannot be read', state: ScriptState.UNREADABLE },
];

export const stateChoices = states.map((s): [string, string] => [s.word, s.title]);

const orders: Record<string, ScriptOrder> = { changed: ScriptOrder.CHANGED, failing: ScriptOrder.FAILING };

/** filterOf reads from the URL which scripts a list shows, and in which order. */
export function filterOf(url: URL | undefined) {
  const { column, descending } = sortOf(url);
  return {
    search: param(url, 'q'),
    tenant: param(url, 'tenant'),
    trigger: param(url, 'trigger'),
    state: states.find((s) => s.word === param(url, 'state'))?.state ?? ScriptState.UNSPECIFIED,
    order: orders[column] ?? ScriptOrder.UNSPECIFIED,
    descending,
  };
}

/** isFiltered reports whether the list may leave scripts out. */
export const isFiltered = (url: URL | undefined): boolean => ['q', 'tenant', 'trigger', 'state'].some((name) => param(url, name));
