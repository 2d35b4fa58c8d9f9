import type { Signal } from '@builder.io/qwik';
import { failureOf, text } from '~/api/failure';
import { session } from '~/api/session';

/** Live is how fresh the content of a page is. */
export interface Live {
  state: 'connecting' | 'live' | 'stale';
  /** Since when, in milliseconds. */
  since: number;
  why: string;
}

export const connecting = (): Live => ({ state: 'connecting', since: Date.now(), why: '' });

const firstPause = 500;
const longestPause = 10_000;
const quiet = 15_000;
const hidden = new Error('The page is hidden.');

/**
 * follow reads a stream until signal ends, and opens it again when it breaks. It checks a stream without messages, because a
 * connection can stay open although the console is gone. A hidden page has no stream: without TLS, a browser opens six connections
 * to the console for all its tabs, and for the pages that it keeps to go back to.
 */
export async function follow<T>(
  signal: AbortSignal,
  live: Signal<Live>,
  open: (signal: AbortSignal) => AsyncIterable<T>,
  take: (message: T) => void,
): Promise<void> {
  let pause = firstPause;
  for (;;) {
    await shown(signal);
    if (signal.aborted) {
      return;
    }
    const attempt = new AbortController();
    const end = () => attempt.abort();
    const hide = () => document.hidden && attempt.abort(hidden);
    signal.addEventListener('abort', end);
    document.addEventListener('visibilitychange', hide);
    const watch = watchQuiet(attempt);
    try {
      for await (const message of open(attempt.signal)) {
        watch.heard();
        pause = firstPause;
        if (live.value.state !== 'live') {
          live.value = { state: 'live', since: Date.now(), why: '' };
        }
        take(message);
      }
      stale(live, 'The stream ended.');
    } catch (error) {
      if (attempt.signal.reason === hidden) {
        live.value = connecting();
        continue;
      }
      if (!signal.aborted) {
        stale(live, text(failureOf(error)));
      }
    } finally {
      watch.stop();
      attempt.abort();
      signal.removeEventListener('abort', end);
      document.removeEventListener('visibilitychange', hide);
    }
    await sleep(pause * (0.5 + Math.random()), signal);
    pause = Math.min(2 * pause, longestPause);
  }
}

/** poll calls load again and again, with a pause between, until signal ends. A hidden page does not poll. */
export async function poll(signal: AbortSignal, live: Signal<Live>, pause: number, load: (signal: AbortSignal) => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    try {
      await load(signal);
      if (live.value.state !== 'live') {
        live.value = { state: 'live', since: Date.now(), why: '' };
      }
    } catch (error) {
      if (!signal.aborted) {
        stale(live, text(failureOf(error)));
      }
    }
    await sleep(pause, signal);
    await shown(signal);
  }
}

function stale(live: Signal<Live>, why: string): void {
  const since = live.value.state === 'stale' ? live.value.since : Date.now();
  live.value = { state: 'stale', since, why };
}

function watchQuiet(attempt: AbortController) {
  let heard = Date.now();
  const timer = setInterval(async () => {
    if (Date.now() - heard < quiet) {
      return;
    }
    try {
      await session(AbortSignal.timeout(quiet / 2));
      heard = Date.now();
    } catch {
      attempt.abort(new Error('The console does not answer.'));
    }
  }, quiet / 3);
  return { heard: () => (heard = Date.now()), stop: () => clearInterval(timer) };
}

const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  until(signal, (finish) => {
    const timer = setTimeout(finish, ms);
    return () => clearTimeout(timer);
  });

/** shown waits until the page is visible. */
const shown = (signal: AbortSignal): Promise<void> =>
  until(signal, (finish) => {
    const look = () => document.hidden || finish();
    document.addEventListener('visibilitychange', look);
    look();
    return () => document.removeEventListener('visibilitychange', look);
  });

/** until waits for a call of finish, or the end of signal. begin returns what to do then. */
async function until(signal: AbortSignal, begin: (finish: () => void) => () => void): Promise<void> {
  let finish = () => {};
  const finished = new Promise<void>((done) => (finish = done));
  signal.addEventListener('abort', finish);
  const stop = begin(finish);
  if (!signal.aborted) {
    await finished;
  }
  stop();
  signal.removeEventListener('abort', finish);
}
