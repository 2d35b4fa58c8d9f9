import type { AgentStatus } from '~/gen/proto/registry/v1/registry_pb';
import { duration } from '~/ui/number';

/** Advice is what is wrong with an agent, and what an operator does about it. */
interface Advice {
  title: string;
  text: string;
  command?: string;
}

/** The part of the disk that is free when a disk is nearly full. */
const little = 0.1;

/** adviceOf lists what an operator does next. docs/runbooks.md has the same advice for alerts. */
export function adviceOf(a: AgentStatus): Advice[] {
  const all: Advice[] = [];
  const add = (when: unknown, title: string, text: string, command?: string) => when && all.push(command ? { title, text, command } : { title, text });
  add(a.foreignFleet, 'It belongs to another fleet', 'It runs the scripts of that fleet and takes nothing from this registry. Check --registry and --etcd-prefix of the agent and of the registry. If etcd was lost, let the agent change over.', 'scriptorium agentd --adopt-fleet FLEET');
  add(a.unknown, `The registry has not heard from it for ${duration(a.unheardFor)}`, 'Check the node, the process of the agent, and its way to NATS. What is live there goes on serving calls. If the node was removed on purpose, do nothing: the agent disappears after an hour.', 'journalctl -u scriptorium-agentd');
  add(a.disk?.fault, 'Its disk cannot be written', `${a.disk?.fault ?? ''}. Make room or repair the mount. The agent tries again within seconds and needs no restart.`);
  add(a.failed > 0, 'It could not activate releases', 'It runs the versions before. Remove the causes that are listed below. The agent tries again by itself. If the version is wrong, roll the script back.');
  add(a.quarantined > 0, 'Scripts are in quarantine', 'They ended their process too often, so the agent does not run them any more. Publish a version without the fault, or roll back.');
  add(a.behind > 0 && !a.unknown && a.failed === 0, `It lacks ${a.behind} releases`, `The oldest was committed ${duration(a.lag)} ago. If this stays, look at the log of the agent: a full disk, a process of a tenant that does not start, or a registry that it cannot reach. A restart keeps what is live.`);
  add(a.laggingTenants > 0, 'The processes of some tenants lack changes', 'The agent has activated changes that the own processes of these tenants do not run yet. If this stays, look for processes that do not start.');
  add(a.held, 'It keeps objects that the registry says are gone', `${a.held}. Do not accept the loss before you know why it happened: look for a restore of etcd.`, 'scriptctl doctor');
  add(nearlyFull(a), 'Its disk is nearly full', 'Less than 10 % of the disk is free. Make room before the agent cannot write.');
  add((a.disk?.corruptFiles ?? 0) > 0, 'Files on its disk were corrupt', 'The agent fetched what they had again. Check the disk for errors.');
  add((a.disk?.untrustedFiles ?? 0) > 0, 'No trusted key had signed files on its disk', 'The agent fetched what they had again. Check --trusted-key.');
  return all;
}

function nearlyFull({ disk }: AgentStatus): boolean {
  return disk !== undefined && !disk.fault && disk.sizeBytes > 0n && Number(disk.freeBytes) < little * Number(disk.sizeBytes);
}
