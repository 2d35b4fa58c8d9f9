import { create } from '@bufbuild/protobuf';
import { registry } from '~/api/client';
import { expecting } from '~/api/expect';
import { failureOf, type Failure } from '~/api/failure';
import type { Draft } from '~/editor/draft';
import { PublishRequestSchema, type PublishRequest, type PublishResponse } from '~/gen/proto/registry/v1/registry_pb';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { isBySystem } from './change';
import { changesSince, releaseOf } from './conflict';
import { draftEdition, editionOf, nothing, type Edition } from './edition';
import { signed } from './write';

/** Checked is the registry's answer about a draft, before it is published. */
export interface Checked {
  /** What was checked. */
  request: PublishRequest;
  /** The revision of the release that the draft is checked against. */
  revision: bigint;
  release: Release | undefined;
  active: Edition;
  mine: Edition;
  /** The outcome of a publish; undefined if the registry refuses the draft. */
  would: PublishResponse | undefined;
  failure: Failure | undefined;
  /** Somebody else changed the script. */
  conflict: boolean;
}

/** Options are what a person decides in the dialog. */
export interface Options {
  /** The publish fails if the release has another revision, or with 0, if there is such a script. */
  revision: bigint;
  note: string;
  liftHold: boolean;
  force: boolean;
  dryRun?: boolean;
  requestId?: string;
}

/** check asks the registry whether it would take the draft, and reads what runs now. */
export async function check(draft: Draft, signal: AbortSignal): Promise<Checked> {
  const name = { tenant: draft.request.tenant, name: draft.request.name };
  const release = await releaseOf(name, signal);
  const active = release?.active ? await editionOf(name, 0n, release, signal) : nothing();
  active.title = release?.active ? `version ${release.active.number}, which is active` : active.title;
  const revision = release?.revision ?? 0n;
  const checked: Checked = { request: draft.request, revision, release, active, mine: draftEdition(draft.request, release && active), would: undefined, failure: undefined, conflict: false };
  if (!release) {
    const { engine, entrypoint } = checked.mine.settings;
    active.settings = { ...(engine && { engine }), ...(entrypoint && { entrypoint }) };
  }
  if (revision !== draft.baseRevision && !(release && (await isMovedAlone(draft, signal)))) {
    return { ...checked, conflict: true };
  }
  try {
    return { ...checked, would: await publish(draft, { note: '', liftHold: false, force: false, revision, dryRun: true }, signal) };
  } catch (e) {
    const failure = failureOf(e);
    return { ...checked, failure, conflict: isConflict(failure) };
  }
}

/** publish sends the draft. */
export async function publish(draft: Draft, options: Options, signal: AbortSignal): Promise<PublishResponse> {
  const { note, liftHold, force, dryRun = false, revision, requestId } = options;
  const request = create(PublishRequestSchema, {
    ...draft.request,
    ...(await signed(note, requestId)),
    expectedRevision: expecting(revision),
    liftHold,
    force,
    dryRun,
  });
  return registry().publish(request, { signal });
}

/** isMovedAlone reports whether only the registry changed the script, which moves a candidate from step to step. */
async function isMovedAlone(draft: Draft, signal: AbortSignal): Promise<boolean> {
  const changes = await changesSince({ tenant: draft.request.tenant, name: draft.request.name }, draft, signal);
  return draft.baseRevision > 0n && changes.length > 0 && changes.every(isBySystem);
}

export const isConflict = (f: Failure): boolean => f.kind === 'CONFLICT' && f.field === 'expected_revision';
