import { $, useComputed$, useSignal, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import type { ScriptRates } from '~/gen/proto/registry/v1/registry_pb';
import { usePoll } from '~/live/poll';
import { param } from '~/shell/query';

/** Health is the calls of a script over the fleet: now, and for the last minutes. */
export interface Health {
  now: ScriptRates | undefined;
  calls: number[];
}

const points = 40;
const pause = 500; // beside the seconds for which agents count
const most = 1000;

/**
 * useHealth counts the calls of the busiest scripts. Everybody who looks at the same tenant uses one query to the fleet. The
 * query without a tenant needs the right to read all tenants.
 */
export function useHealth(url: Signal<URL | undefined>): Signal<Map<string, Health>> {
  const health = useSignal(new Map<string, Health>());
  const query = useComputed$(() => url.value && param(url.value, 'tenant'));
  usePoll(
    query,
    pause,
    $(async (tenant: string, signal: AbortSignal) => {
      const { scripts } = await registry().top({ tenant, limit: most }, { signal });
      health.value = add(health.value, scripts);
    }),
  );
  return health;
}

function add(before: Map<string, Health>, scripts: ScriptRates[]): Map<string, Health> {
  const now = new Map(scripts.map((s) => [`${s.tenant}/${s.name}`, s]));
  const after = new Map<string, Health>();
  for (const name of new Set([...before.keys(), ...now.keys()])) {
    const calls = [...(before.get(name)?.calls ?? [0]), now.get(name)?.callsPerSecond ?? 0].slice(-points);
    if (calls.some((c) => c > 0)) {
      after.set(name, { now: now.get(name), calls });
    }
  }
  return after;
}
