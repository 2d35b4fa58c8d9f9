import { registry } from '~/api/client';

const most = 50;

/**
 * tenantNames suggests tenants whose names contain the text: tenants with settings, tenants that the caller's roles name, and
 * tenants of scripts that the caller can read. It asks for one page of each, so in a large registry the person types some of the name.
 */
export async function tenantNames(text: string, signal: AbortSignal): Promise<string[]> {
  const all = await Promise.allSettled([
    registry().listTenants({ pageSize: 1000 }, { signal }).then((a) => a.tenants.filter((t) => !t.deleted).map((t) => t.name)),
    registry().check({}, { signal }).then((a) => a.grants.flatMap((g) => g.tenants).filter((t) => !/[*?[]/.test(t))),
    registry().findScripts({ search: text.slice(0, 200), limit: 200 }, { signal }).then((a) => a.status?.scripts.map((s) => s.release?.tenant ?? '') ?? []),
  ]);
  const names = new Set(all.flatMap((a) => (a.status === 'fulfilled' ? a.value : [])));
  return [...names].filter((n) => n && n.includes(text)).sort().slice(0, most);
}
