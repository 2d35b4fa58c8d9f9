import type { Event } from '~/gen/proto/script/v1/script_pb';
import { plain } from '~/ui/plain';

/** The types of events with their titles, in the order of the filter. */
export const types: [string, string][] = [
  ['publish', 'Publishes'],
  ['rollout', 'Rollouts'],
  ['hold', 'Holds and rollbacks'],
  ['changeset', 'Change sets'],
  ['value', 'Values'],
  ['tenant', 'Tenants'],
  ['freeze', 'Freezes'],
  ['agent', 'Agents'],
  ['drift', 'Drift of agents'],
  ['key', 'Keys'],
  ['quota', 'Quotas'],
  ['loss', 'Losses'],
];

/** subject is what an event is about, such as acme/route. */
export function subject(e: Event): string {
  if (e.name) {
    return `${e.tenant}/${e.name}`;
  }
  return e.key ? `${e.tenant}/${e.key}` : e.tenant;
}

/** details is what happened, in words. */
export function details(e: Event): string {
  const parts = [
    e.candidate > 0n ? `candidate ${e.candidate}` : e.version > 0n ? `version ${e.version}` : '',
    e.changeSet && `change set ${e.changeSet}`,
    e.subjects.length > 0 ? subjects(e) : e.count > 1n ? `${e.count} times` : '',
    e.text,
  ];
  return plain(parts.filter(Boolean).join(' · '));
}

function subjects(e: Event): string {
  const others = Number(e.count) - e.subjects.length;
  return e.subjects.join(', ') + (others > 0 ? ` and ${others.toLocaleString()} more` : '');
}
