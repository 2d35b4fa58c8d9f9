import type { HistoryEntry } from '~/gen/proto/script/v1/script_pb';

/** The author of the registry's own changes. */
const system = 'scriptorium';

export const isBySystem = (e: { author: string }): boolean => e.author === system;

const words: { [change: string]: string } = {
  publish: 'Published',
  pin: 'Pinned',
  unpin: 'Unpinned',
  rollback: 'Rolled back',
  hold: 'Held',
  release: 'Hold released',
  enable: 'Enabled',
  disable: 'Disabled',
  configure: 'Settings changed',
  delete: 'Deleted',
  own: 'Owner changed',
  import: 'Imported',
  repair: 'Repaired',
  sign: 'Signed',
  advance: 'Next step',
  promote: 'Live everywhere',
  abort: 'Candidate given up',
  retry: 'Tried again',
  approve: 'Step approved',
};

/** changeText is a change in words. A newer registry can have changes that this console has no words for. */
export const changeText = (e: HistoryEntry): string => words[e.change] ?? e.change;


/** isEnd reports whether a rollout ended with the change. */
export const isEnd = (e: HistoryEntry): boolean => ['promote', 'abort', 'rollback', 'pin', 'hold'].includes(e.change) || (e.change === 'publish' && e.candidate === 0n);
