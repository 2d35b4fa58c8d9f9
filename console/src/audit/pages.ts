import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { registry } from '~/api/client';
import type { AuditEntry } from '~/gen/proto/script/v1/script_pb';
import type { Listed } from '~/live/pages';
import { param } from '~/shell/query';

/** Filter selects writes. */
export interface Filter {
  tenant: string;
  name: string;
  /** In milliseconds; 0 for all that are kept. */
  since: number;
}

/** filterOf reads the URL. The parameter day overrides hours. */
export function filterOf(url: URL): Filter {
  const day = new Date(`${param(url, 'day')}T00:00`).getTime(); // in the reader's zone
  const hours = Number(param(url, 'hours'));
  return { tenant: param(url, 'tenant'), name: param(url, 'name'), since: day || (hours > 0 ? Date.now() - hours * 3_600_000 : 0) };
}

/** load reads a page of the writes, newest first. */
export async function load(f: Filter, pageToken: string, pageSize: number, signal: AbortSignal): Promise<Listed<AuditEntry>> {
  const since = f.since > 0 ? { since: timestampFromMs(f.since) } : {};
  const answer = await registry().audit({ tenant: f.tenant, name: f.name, pageSize, pageToken, ...since }, { signal });
  return { items: answer.entries, next: answer.nextPageToken };
}
