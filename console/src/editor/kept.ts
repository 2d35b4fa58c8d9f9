import type { Opened } from './open';

/**
 * Drafts stay in the memory of the tab until somebody publishes them, so that going to another page and back loses nothing. They
 * are in no storage of the browser, because a source can have secrets. The browser asks before the person closes or reloads the tab.
 */
const kept = new Map<string, Opened>();

export const keptDraft = (name: string): Opened | undefined => kept.get(name);

export const hasDrafts = (): boolean => kept.size > 0;

export function keep(name: string, opened: Opened): void {
  if (!opened.draft.dirty) {
    forget(name);
    return;
  }
  kept.set(name, opened);
  addEventListener('beforeunload', ask);
}

export function forget(name: string): void {
  kept.delete(name);
  if (kept.size === 0) {
    removeEventListener('beforeunload', ask);
  }
}

function ask(event: BeforeUnloadEvent): void {
  event.preventDefault();
}
