import type { Opened } from './open';

/**
 * Drafts that nobody has published stay in the memory of the tab, so that going to another page and back loses nothing. They
 * are in no storage of the browser: a source may hold secrets. Whoever closes or reloads the tab is asked before.
 */
const kept = new Map<string, Opened>();

export const keptDraft = (name: string): Opened | undefined => kept.get(name);

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
