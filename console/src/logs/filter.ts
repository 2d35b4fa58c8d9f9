import { durationFromMs, type Duration } from '@bufbuild/protobuf/wkt';
import { listOf } from '~/ui/form';
import { param } from '~/shell/query';

/** Filter selects the lines that a person wants to see. */
export interface Filter {
  tenant: string;
  name: string;
  agents: string[];
  version: bigint;
  level: string;
  grep: string;
  since: Duration;
  /** New lines are added as they come. */
  tail: boolean;
}

export const ages: [string, string][] = [['5', '5 minutes'], ['', '15 minutes'], ['60', '1 hour'], ['1440', '1 day']];
const defaultMinutes = 15;

/** filterOf returns undefined if no tenant is chosen. */
export function filterOf(url: URL | undefined): Filter | undefined {
  const tenant = param(url, 'tenant');
  if (!tenant) {
    return undefined;
  }
  return {
    tenant,
    name: param(url, 'name'),
    agents: listOf(param(url, 'agents')),
    version: /^\d{1,18}$/.test(param(url, 'version')) ? BigInt(param(url, 'version')) : 0n,
    level: param(url, 'level'),
    grep: param(url, 'grep'),
    since: durationFromMs((Number(param(url, 'since')) || defaultMinutes) * 60_000),
    tail: param(url, 'tail') !== 'off',
  };
}
