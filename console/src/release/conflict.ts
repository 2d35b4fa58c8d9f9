import { create } from '@bufbuild/protobuf';
import { registry } from '~/api/client';
import { failureOf } from '~/api/failure';
import type { Draft } from '~/editor/draft';
import { PublishRequestSchema, type PublishRequest } from '~/gen/proto/registry/v1/registry_pb';
import type { HistoryEntry, Release } from '~/gen/proto/script/v1/script_pb';
import type { Name } from '~/script/name';
import { bytesOf, sameBytes } from '~/ui/bytes';
import { linesOf } from './diff';
import { draftEdition, editionOf, nothing, type Edition } from './edition';
import { merge, result, twoWay, type Choice, type Piece } from './merge';
import { settingsOf, type Tree } from './settings';
import { differences, merged, pathKey, type Difference } from './tree';

/** Conflict is a draft, and what somebody else changed since the draft began. */
export interface Conflict {
  draft: Draft;
  /** The release as it is now; undefined if the script is gone. */
  release: Release | undefined;
  /** What happened since, newest first. */
  changes: HistoryEntry[];
  base: Edition | undefined;
  theirs: Edition;
  mine: Edition;
  source: Piece[];
  settings: Difference[];
}

/** Choices are the person's decisions about what both changed. */
export interface Choices {
  source: Record<number, Choice>;
  settings: Record<string, 'theirs' | 'mine'>;
}

/** conflictOf reads the present release. before is the release that the draft began with, if it is known: versions have no rollout plan. */
export async function conflictOf(draft: Draft, before: Release | undefined, signal: AbortSignal): Promise<Conflict> {
  const name = { tenant: draft.request.tenant, name: draft.request.name };
  const release = await releaseOf(name, signal);
  if (!release) {
    const mine = draftEdition(draft.request, undefined);
    return { draft, release, changes: await changesSince(name, draft, signal), base: undefined, theirs: nothing(), mine, source: [], settings: [] };
  }
  const newest = newestOf(release);
  const [theirs, base, changes] = await Promise.all([
    editionOf(name, newest, release, signal),
    baseOf(name, draft, before, signal),
    changesSince(name, draft, signal),
  ]);
  const mine = draftEdition(draft.request, base);
  return { draft, release, changes, base, theirs, mine, source: sourceOf(base, theirs, mine), settings: settingsBetween(base, theirs, mine, before) };
}

/** releaseOf is undefined for a script that does not exist. */
export async function releaseOf(name: Name, signal: AbortSignal): Promise<Release | undefined> {
  try {
    return (await registry().get({ ...name }, { signal })).release;
  } catch (e) {
    if (failureOf(e).kind === 'NOTFOUND') {
      return undefined;
    }
    throw e;
  }
}

/** newestOf is the version that somebody published last, if it is retained. */
function newestOf(r: Release): bigint {
  return r.retained.find((v) => v.number === r.latest)?.number ?? r.candidate?.version ?? r.active!.number;
}

/** baseOf is undefined if the version is not retained any more. */
async function baseOf(name: Name, draft: Draft, before: Release | undefined, signal: AbortSignal): Promise<Edition | undefined> {
  if (draft.baseVersion === 0n) {
    return undefined;
  }
  try {
    return await editionOf(name, draft.baseVersion, before, signal);
  } catch (e) {
    if (failureOf(e).kind === 'NOTFOUND') {
      return undefined;
    }
    throw e;
  }
}

export async function changesSince(name: Name, draft: Draft, signal: AbortSignal): Promise<HistoryEntry[]> {
  const { entries } = await registry().history({ ...name }, { signal });
  return entries.filter((e) => e.revision > draft.baseRevision);
}

function sourceOf(base: Edition | undefined, theirs: Edition, mine: Edition): Piece[] {
  if (theirs.text === undefined || mine.text === undefined || (base && base.text === undefined)) {
    return binary(base, theirs, mine);
  }
  return base ? merge(linesOf(base.text!), linesOf(theirs.text), linesOf(mine.text)) : twoWay(linesOf(theirs.text), linesOf(mine.text));
}

/** binary merges a source without lines: as a whole. */
function binary(base: Edition | undefined, theirs: Edition, mine: Edition): Piece[] {
  const byThem = !base || !sameBytes(base.source, theirs.source);
  const byMe = !base || !sameBytes(base.source, mine.source);
  const kind = sameBytes(theirs.source, mine.source) ? 'same' : byThem && byMe ? 'conflict' : byThem ? 'theirs' : 'mine';
  const about = (e: Edition | undefined) => [e ? `${e.source.length.toLocaleString()} bytes` : 'not known'];
  return [{ kind, base: about(base), theirs: about(theirs), mine: about(mine) }];
}

/** settingsBetween treats a rollout plan whose origin is not known as changed by both. */
function settingsBetween(base: Edition | undefined, theirs: Edition, mine: Edition, before: Release | undefined): Difference[] {
  const found = differences(base?.settings ?? {}, theirs.settings, mine.settings);
  const ofRelease = (d: Difference) => d.path[0] === 'rollout' || d.path[0] === 'historyLimit';
  const known = base !== undefined && before !== undefined;
  return found.filter((d) => base || d.kind !== 'both').map((d) => (!base || (!known && ofRelease(d))) && d.kind !== 'both' ? { ...d, kind: 'conflict' } : d);
}

/** open counts the conflicts without a choice. */
export function open(c: Conflict, choices: Choices): number {
  const source = c.source.filter((p, i) => p.kind === 'conflict' && !choices.source[i]).length;
  return source + c.settings.filter((d) => d.kind === 'conflict' && !choices.settings[pathKey(d.path)]).length;
}

/** requestOf is the draft with the changes of both. */
export function requestOf(c: Conflict, choices: Choices): PublishRequest {
  const { request } = c.draft;
  if (!c.release) {
    return request;
  }
  const tree = merged(c.mine.settings, c.settings, choices.settings) as Tree;
  return create(PublishRequestSchema, {
    ...request,
    source: sourceBytes(c, choices),
    engine: typeof tree.engine === 'string' ? tree.engine : request.engine,
    entrypoint: typeof tree.entrypoint === 'string' ? tree.entrypoint : request.entrypoint,
    settings: request.settings && settingsOf(tree, c.mine.raw, c.theirs.raw),
  });
}

function sourceBytes(c: Conflict, choices: Choices): Uint8Array {
  const text = c.theirs.text !== undefined && c.mine.text !== undefined && (!c.base || c.base.text !== undefined);
  if (text) {
    return bytesOf(result(c.source, choices.source)!.join('\n'));
  }
  const piece = c.source[0]!;
  const theirs = piece.kind === 'theirs' || (piece.kind === 'conflict' && choices.source[0] === 'theirs');
  return theirs ? c.theirs.source : c.mine.source;
}
