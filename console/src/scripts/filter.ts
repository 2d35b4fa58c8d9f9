import { ScriptOrder, ScriptState } from '~/gen/proto/registry/v1/registry_pb';

/** Filter is which scripts a list shows, and in which order. It stands in the URL. */
export interface Filter {
  search: string;
  tenant: string;
  trigger: string;
  state: ScriptState;
  order: ScriptOrder;
  descending: boolean;
}

/** The words for the states, in the URL and for people. */
export const states: { word: string; title: string; state: ScriptState }[] = [
  { word: '', title: 'any', state: ScriptState.UNSPECIFIED },
  { word: 'candidate', title: 'has a candidate', state: ScriptState.CANDIDATE },
  { word: 'candidate-failed', title: 'candidate failed', state: ScriptState.CANDIDATE_FAILED },
  { word: 'failing', title: 'fails on agents', state: ScriptState.FAILING },
  { word: 'not-converged', title: 'not on all agents', state: ScriptState.NOT_CONVERGED },
  { word: 'held', title: 'held', state: ScriptState.HELD },
  { word: 'disabled', title: 'disabled', state: ScriptState.DISABLED },
  { word: 'unreadable', title: 'record cannot be read', state: ScriptState.UNREADABLE },
];

const orders: Record<string, ScriptOrder> = {
  name: ScriptOrder.UNSPECIFIED,
  changed: ScriptOrder.CHANGED,
  failing: ScriptOrder.FAILING,
};

export function filterOf(url: URL | undefined): Filter {
  const q = url?.searchParams;
  const sort = q?.get('sort') ?? '';
  return {
    search: q?.get('q') ?? '',
    tenant: q?.get('tenant') ?? '',
    trigger: q?.get('trigger') ?? '',
    state: states.find((s) => s.word === q?.get('state'))?.state ?? ScriptState.UNSPECIFIED,
    order: orders[sort.replace(/^-/, '')] ?? ScriptOrder.UNSPECIFIED,
    descending: sort.startsWith('-'),
  };
}

/** isFiltered reports whether the list may leave scripts out. */
export const isFiltered = (f: Filter): boolean => Boolean(f.search || f.tenant || f.trigger || f.state);

/** withParameter returns the list's address with one parameter changed; an empty value removes it. */
export function withParameter(url: URL | undefined, name: string, value: string): string {
  const q = new URLSearchParams(url?.search);
  if (value) {
    q.set(name, value);
  } else {
    q.delete(name);
  }
  return q.size > 0 ? `${url?.pathname ?? '/'}?${q}` : (url?.pathname ?? '/');
}
