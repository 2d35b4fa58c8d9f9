import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { registry } from '~/api/client';
import { seconds } from '~/ui/number';
import { milliseconds } from '~/ui/time';

/** Used is what the calls of a tenant used from a time on: for an hour, or for a day. */
export interface Used {
  from: number;
  calls: number;
  errors: number;
  /** In seconds. */
  processor: number;
}

const hour = 3_600_000;

/** Span is a time to look at, and how long each bar of it is. */
interface Span {
  title: string;
  hours: number;
  bar: number;
}

export const spans: Record<string, Span> = {
  '': { title: 'The last day', hours: 24, bar: 1 },
  '7d': { title: 'The last week', hours: 168, bar: 6 },
  '31d': { title: 'The last 31 days', hours: 744, bar: 24 },
};

/** usage returns a bar for each part of the span, also without calls. */
export async function usage(tenant: string, span: Span, signal: AbortSignal): Promise<Used[]> {
  const width = span.bar * hour;
  const end = (Math.floor(Date.now() / hour) + 1) * hour;
  const start = end - span.hours * hour;
  const bars: Used[] = Array.from({ length: span.hours / span.bar }, (_, i) => ({ from: start + i * width, calls: 0, errors: 0, processor: 0 }));
  for await (const { usages } of registry().usage({ tenant, since: timestampFromMs(start) }, { signal })) {
    for (const u of usages) {
      const bar = bars[Math.floor(((milliseconds(u.hour) ?? 0) - start) / width)];
      if (bar && u.usage) {
        bar.calls += Number(u.usage.calls);
        bar.errors += Number(u.usage.errors);
        bar.processor += seconds(u.usage.processorTime) ?? 0;
      }
    }
  }
  return bars;
}
