import type { Interceptor } from '@connectrpc/connect';

const recent = 60_000;
let last = 0;

/**
 * activity marks calls that a page makes by itself, such as polls, so that they do not extend a session. A call counts
 * as the person's own if the person used the page in the last minute.
 */
export function activity(): Interceptor {
  last = Date.now();
  for (const event of ['pointerdown', 'keydown'] as const) {
    document.addEventListener(event, () => (last = Date.now()), { passive: true, capture: true });
  }
  return (next) => (request) => {
    if (Date.now() - last > recent) {
      request.header.set('Scriptorium-Background', '1');
    }
    return next(request);
  };
}
