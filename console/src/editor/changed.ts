import { equals } from '@bufbuild/protobuf';
import { registry } from '~/api/client';
import { PlanSchema, type Plan, type Release } from '~/gen/proto/script/v1/script_pb';
import type { Draft } from './draft';

/** News is what a newer release means to a draft. */
type News = 'none' | 'moved' | 'changed';

/**
 * newsOf compares the release that the draft began with and the one that is now. A rollout moves a release on without changing
 * what a draft is about: then only the revision is another one.
 */
export function newsOf(draft: Draft, seen: Release | undefined, now: Release | undefined): News {
  if (!now || now.revision <= draft.baseRevision || (!seen && now.deleted)) {
    return 'none';
  }
  return seen && same(seen, now) ? 'moved' : 'changed';
}

const same = (a: Release, b: Release): boolean =>
  a.latest === b.latest && a.enabled === b.enabled && a.deleted === b.deleted && a.owner === b.owner && pinOf(a) === pinOf(b) && historyOf(a) === historyOf(b) && samePlan(planOf(a), planOf(b));

const pinOf = (r: Release): bigint => r.hold?.declared ?? (r.pinned ? (r.active?.number ?? 0n) : 0n);
const historyOf = (r: Release): number => r.settings?.historyLimit ?? 0;
const planOf = (r: Release): Plan | undefined => r.settings?.rollout;
const samePlan = (a: Plan | undefined, b: Plan | undefined): boolean => (a && b ? equals(PlanSchema, a, b) : a === b);

/** story is a sentence about what somebody did. The status of a fleet has no author, so story reads the history. */
export async function story(seen: Release | undefined, now: Release): Promise<string> {
  const name = `${now.tenant}/${now.name}`;
  if (now.deleted) {
    return `${name} was deleted.`;
  }
  if (now.latest !== seen?.latest) {
    const author = await authorOf(now);
    return `${name} changed: version ${now.latest}${author ? ` by ${author}` : ''}.`;
  }
  return `${name} changed: its ${now.enabled === seen?.enabled ? 'settings are' : 'state is'} not as before.`;
}

async function authorOf({ tenant, name, latest }: Release): Promise<string> {
  try {
    const { entries } = await registry().history({ tenant, name });
    return entries.find((e) => e.change === 'publish' && (e.version === latest || e.candidate === latest))?.author ?? '';
  } catch {
    return '';
  }
}
