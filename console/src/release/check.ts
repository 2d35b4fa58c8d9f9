import { create } from '@bufbuild/protobuf';
import { registry } from '~/api/client';
import { failureOf, type Failure } from '~/api/failure';
import type { Draft } from '~/editor/draft';
import { PublishRequestSchema, type PublishResponse } from '~/gen/proto/registry/v1/registry_pb';
import type { Release } from '~/gen/proto/script/v1/script_pb';
import { releaseOf } from './conflict';
import { draftEdition, editionOf, nothing, type Edition } from './edition';
import { signed } from './write';

/** Checked is what the registry says of a draft before it is published. */
export interface Checked {
  release: Release | undefined;
  active: Edition;
  mine: Edition;
  /** What would be; undefined if the registry refuses the draft. */
  would: PublishResponse | undefined;
  failure: Failure | undefined;
  /** Somebody else changed the script. */
  conflict: boolean;
}

/** Options are what a person decides besides the draft. */
export interface Options {
  note: string;
  liftHold: boolean;
  force: boolean;
  dryRun: boolean;
  requestId?: string;
}

/** check asks the registry whether it would take the draft, and reads what runs now. */
export async function check(draft: Draft, options: Options, signal: AbortSignal): Promise<Checked> {
  const name = { tenant: draft.request.tenant, name: draft.request.name };
  const release = await releaseOf(name, signal);
  const active = release?.active ? await editionOf(name, 0n, release, signal) : nothing();
  active.title = release?.active ? `version ${release.active.number}, which is active` : active.title;
  const checked: Checked = { release, active, mine: draftEdition(draft.request, release && active), would: undefined, failure: undefined, conflict: false };
  if ((release?.revision ?? 0n) !== draft.baseRevision) {
    return { ...checked, conflict: true };
  }
  try {
    return { ...checked, would: await publish(draft, { ...options, dryRun: true }, signal) };
  } catch (e) {
    const failure = failureOf(e);
    return { ...checked, failure, conflict: isConflict(failure) };
  }
}

/** publish sends the draft. It changes nothing if the script is not what the draft began with any more. */
export async function publish(draft: Draft, options: Options, signal: AbortSignal): Promise<PublishResponse> {
  const { note, liftHold, force, dryRun, requestId } = options;
  const request = create(PublishRequestSchema, {
    ...draft.request,
    ...(await signed(note, requestId)),
    expectedRevision: draft.baseRevision,
    liftHold,
    force,
    dryRun,
  });
  return registry().publish(request, { signal });
}

export const isConflict = (f: Failure): boolean => f.kind === 'CONFLICT' && f.field === 'expected_revision';
