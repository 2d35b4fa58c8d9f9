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
  /** There are older ones. */
  more: Signal<boolean>;
  /** The place from which the page asks for older ones. A page sets it. */
  wanted: Signal<number>;
  failure: Signal<Failure | undefined>;
  live: Signal<Live>;
}

const page = 200;
/** A tab that stays open does not keep all events that ever come. */
const most = 5000;

/** useEvents lists the events, and then follows those that come. The older ones come when the page wants them. */
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
  /** All anew. */
  list?: Event[];
  next: string;
  news: Event[];
}

/**
 * watch lists, and follows from there without a gap. After a break it goes on from where it was; if the registry does not know
 * any more what came since, it lists again.
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

/** newer puts events that were streamed, oldest first, before those that were there. An event that grew takes its place anew. */
function newer(before: Event[], news: Event[]): Event[] {
  const ids = new Set(news.map((e) => e.id));
  return [...news.toReversed(), ...before.filter((e) => !ids.has(e.id))].slice(0, most);
}

function older(before: Event[], more: Event[]): Event[] {
  const ids = new Set(before.map((e) => e.id));
  return [...before, ...more.filter((e) => !ids.has(e.id))];
}
