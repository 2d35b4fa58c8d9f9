import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import { LogsState, type QueryResult, type RecentLogsResponse, type WatchLogsResponse } from '~/gen/proto/registry/v1/registry_pb';
import { connecting, follow, type Live } from '~/live/follow';
import { Buffer, type Line } from './buffer';
import type { Filter } from './filter';

/** Tail is what a page shows of the lines. */
interface Tail {
  lines: Signal<Line[]>;
  /** Lines that the page dropped for newer ones. */
  dropped: Signal<number>;
  /** Lines that agents or the registry left out, since they were too many. */
  missed: Signal<number>;
  /** Lines that came while the page was paused. */
  held: Signal<number>;
  paused: Signal<boolean>;
  /** What agents answered about earlier lines; undefined until they answer. */
  before: Signal<Before | undefined>;
  failure: Signal<Failure | undefined>;
  live: Signal<Live>;
}

export interface Before {
  result: QueryResult | undefined;
  /** Agents have more lines that match. */
  truncated: boolean;
  /** Agents have dropped lines of that age. */
  evicted: boolean;
}

const interval = 150;
const recent = 2000;

/** useTail loads the lines that agents keep in memory, and adds new lines. A change of reload starts again. */
export function useTail(filter: Signal<Filter | undefined>, reload: Signal<number>): Tail {
  const t: Tail = {
    lines: useSignal<Line[]>([]),
    dropped: useSignal(0),
    missed: useSignal(0),
    held: useSignal(0),
    paused: useSignal(false),
    before: useSignal<Before>(),
    failure: useSignal<Failure>(),
    live: useSignal<Live>(connecting()),
  };

  useVisibleTask$(({ track, cleanup }) => {
    const f = track(() => filter.value);
    track(() => reload.value);
    t.lines.value = [];
    t.paused.value = false;
    t.dropped.value = t.missed.value = t.held.value = 0;
    t.before.value = t.failure.value = undefined;
    if (!f) {
      return;
    }
    const abort = new AbortController();
    const buffer = new Buffer();
    const before = { added: 0 };
    const timer = setInterval(() => show(t, buffer, before), interval);
    cleanup(() => {
      clearInterval(timer);
      abort.abort();
    });
    void read(f, t, buffer, abort.signal);
  }, { strategy: 'document-ready' });
  return t;
}

/** show renders new lines a few times a second. A busy fleet logs more than a browser can draw line by line. */
function show(t: Tail, buffer: Buffer, before: { added: number }): void {
  const news = buffer.added - before.added;
  t.held.value = t.paused.value ? news : 0;
  if (news > 0 && !t.paused.value) {
    before.added = buffer.added;
    t.lines.value = [...buffer.lines];
    t.dropped.value = buffer.dropped;
  }
}

async function read(f: Filter, t: Tail, buffer: Buffer, signal: AbortSignal): Promise<void> {
  if (!f.tail) {
    await remember(f, t, buffer, signal);
    if (!signal.aborted && !t.failure.value) {
      t.live.value = { state: 'live', since: Date.now(), why: '' };
    }
    return;
  }
  await follow(signal, t.live, watch(f, t.failure), ({ logs, state }) => {
    t.failure.value = undefined;
    if (state === LogsState.LISTENING) {
      // Also after a break: agents keep what was logged meanwhile.
      void remember(f, t, buffer, signal);
    } else if (state === LogsState.INTERRUPTED) {
      t.live.value = { state: 'stale', since: Date.now(), why: 'The registry has lost NATS. Lines are missing until it is back.' };
    }
    if (logs) {
      t.missed.value += Number(logs.dropped);
      buffer.add(logs.agent, logs.lines);
    }
  });
}

/** watch reports errors that do not pass, such as a wrong filter or a missing script. */
function watch(f: Filter, failure: Signal<Failure | undefined>) {
  return async function* (signal: AbortSignal): AsyncIterable<WatchLogsResponse> {
    const { since: _, tail: __, ...request } = f;
    try {
      yield* registry().watchLogs(request, { signal });
    } catch (error) {
      const why = failureOf(error);
      if (!signal.aborted && why.kind && why.kind !== 'UNAVAILABLE') {
        failure.value = why;
      }
      throw error;
    }
  };
}

/** remember asks agents for the lines that they keep in memory. */
async function remember(f: Filter, t: Tail, buffer: Buffer, signal: AbortSignal): Promise<void> {
  const { tail: _, ...request } = f;
  try {
    const lines: { agent: string; line: NonNullable<RecentLogsResponse['lines'][number]['line']> }[] = [];
    for await (const answer of registry().recentLogs({ ...request, limit: recent }, { signal })) {
      answer.lines.forEach(({ agent, line }) => line && lines.push({ agent, line }));
      if (answer.result) {
        t.before.value = { result: answer.result, truncated: answer.truncated, evicted: answer.evicted };
      }
    }
    buffer.merge(lines);
  } catch (error) {
    if (!signal.aborted) {
      t.failure.value = failureOf(error);
    }
  }
}
