import { AgentOrder, AgentState } from '~/gen/proto/registry/v1/registry_pb';
import { param, sortOf } from '~/shell/query';

/** The words for the states, in the URL and for people. */
const states: Record<string, [AgentState, string]> = {
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

export const stateChoices: [string, string][] = [['', 'All'], ...Object.entries(states).map(([word, [, title]]): [string, string] => [word, title])];

const orders: Record<string, AgentOrder> = { lag: AgentOrder.LAG, software: AgentOrder.SOFTWARE, failed: AgentOrder.FAILED };

/** filterOf reads from the URL which agents a list shows, and in which order. */
export function filterOf(url: URL) {
  const { column, descending } = sortOf(url);
  return {
    search: param(url, 'q'),
    state: states[param(url, 'state')]?.[0] ?? AgentState.UNSPECIFIED,
    order: orders[column] ?? AgentOrder.UNSPECIFIED,
    descending,
  };
}
