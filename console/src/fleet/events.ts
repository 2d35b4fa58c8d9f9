import { useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import type { Event } from '~/gen/proto/script/v1/script_pb';
import { connecting, follow, type Live } from '~/live/follow';

export interface EventFilter {
  tenant: string;
  name: string;
  types: string[];
  /** In hours; 0 for all that are kept. */
  hours: number;
}

/** Timeline is what a page shows of the events, newest first. */
interface Timeline {
  /** Undefined until the registry has answered. */
  events: Signal<Event[] | undefined>;
  /** There are older events. */
  more: Signal<boolean>;
  /** The place of the last event that the page shows. If it is not loaded yet, older events are. */
  wanted: Signal<number>;
  failure: Signal<Failure | undefined>;
  live: Signal<Live>;
}

const page = 200;
/** The bound of a tab that stays open. */
const most = 5000;

/** useEvents lists events and follows new ones. It loads older events when the page sets wanted. */
export function useEvents(filter: Signal<EventFilter | undefined>): Timeline {
  const events = useSignal<Event[]>();
  const more = useSignal(false);
  const wanted = useSignal(0);
  const next = useSignal('');
  const failure = useSignal<Failure>();
  const live = useSignal<Live>(connecting());

  useVisibleTask$(({ track, cleanup }) => {
    const f = track(() => filter.value);
    if (!f) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    events.value = undefined;
    wanted.value = 0;
    void follow(abort.signal, live, watch(f, failure), (update) => {
      failure.value = undefined;
      if (update.list) {
        events.value = update.list;
        next.value = update.next;
        more.value = update.next !== '';
      } else {
        events.value = newer(events.value ?? [], update.news);
      }
    });
  }, { strategy: 'document-ready' });

  useVisibleTask$(async ({ track, cleanup }) => {
    const want = track(() => wanted.value);
    const have = track(() => events.value);
    const f = filter.value;
    if (!f || !have || !next.value || want < have.length || have.length >= most) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    try {
      const answer = await registry().listEvents({ ...requestOf(f), pageToken: next.value }, { signal: abort.signal });
      next.value = answer.nextPageToken;
      more.value = answer.nextPageToken !== '';
      events.value = older(events.value ?? [], answer.events);
    } catch (error) {
      if (!abort.signal.aborted) {
        failure.value = failureOf(error);
      }
    }
  }, { strategy: 'document-ready' });
  return { events, more, wanted, failure, live };
}

interface Update {
  /** The first page, which replaces all events. */
  list?: Event[];
  next: string;
  news: Event[];
}

/**
 * watch lists events, and follows new ones without a gap. After a break it continues; if the registry has forgotten
 * the events since then, it lists again.
 */
function watch(f: EventFilter, failure: Signal<Failure | undefined>): (signal: AbortSignal) => AsyncIterable<Update> {
  let token = '';
  return async function* (signal: AbortSignal): AsyncIterable<Update> {
    try {
      if (!token) {
        const answer = await registry().listEvents(requestOf(f), { signal });
        token = answer.watchToken;
        yield { list: answer.events, next: answer.nextPageToken, news: [] };
      }
      for await (const answer of registry().watchEvents({ tenant: f.tenant, name: f.name, types: f.types, token }, { signal })) {
        token = answer.token;
        yield { next: '', news: answer.events };
      }
    } catch (error) {
      const f = failureOf(error);
      if (f.kind === 'CONFLICT') {
        token = '';
      } else if (!signal.aborted) {
        failure.value = f.kind === 'UNAVAILABLE' || !f.kind ? undefined : f;
      }
      throw error;
    }
  };
}

function requestOf(f: EventFilter) {
  return {
    tenant: f.tenant,
    name: f.name,
    types: f.types,
    pageSize: page,
    ...(f.hours > 0 ? { since: timestampFromMs(Date.now() - f.hours * 3_600_000) } : {}),
  };
}

/** newer adds streamed events, which come oldest first. An event that grew moves to the top. */
function newer(before: Event[], news: Event[]): Event[] {
  const ids = new Set(news.map((e) => e.id));
  return [...news.toReversed(), ...before.filter((e) => !ids.has(e.id))].slice(0, most);
}

function older(before: Event[], more: Event[]): Event[] {
  const ids = new Set(before.map((e) => e.id));
  return [...before, ...more.filter((e) => !ids.has(e.id))];
}
