import { signedOut } from '~/api/client';
import type { Opened } from './open';
import { hasAny } from './unfinished';

/**
 * Drafts stay in the memory of the tab until somebody publishes them, so that going to another page and back loses nothing. They
 * are in no storage of the browser, because a source can have secrets. The browser asks before the person closes or reloads the tab.
 */
const kept = new Map<string, Opened>();

export const keptDraft = (name: string): Opened | undefined => kept.get(name);

export function keep(name: string, opened: Opened): void {
  if (!opened.draft.dirty && !hasAny(opened.unfinished)) {
    forget(name);
    return;
  }
  kept.set(name, opened);
  leaving.forEach((event) => addEventListener(event, stay));
}

export function forget(name: string): void {
  kept.delete(name);
  if (kept.size === 0) {
    leaving.forEach((event) => removeEventListener(event, stay));
  }
}

/** The events before the page goes away. */
const leaving = ['beforeunload', signedOut];

function stay(event: Event): void {
  event.preventDefault();
}
