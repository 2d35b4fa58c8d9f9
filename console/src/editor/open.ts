import { create } from '@bufbuild/protobuf';
import { registry } from '~/api/client';
import { PublishRequestSchema, type GetSourceResponse, type PublishRequest } from '~/gen/proto/registry/v1/registry_pb';
import { SettingsSchema, type Release } from '~/gen/proto/script/v1/script_pb';
import { engineOf } from '~/script/engine';
import type { Name } from '~/script/name';
import type { Draft } from './draft';
import type { UnfinishedTexts } from './unfinished';

/** Opened is a script as the page has read it. */
export interface Opened {
  draft: Draft;
  base: PublishRequest;
  release: Release | undefined;
  unfinished?: UnfinishedTexts;
}

/** open reads a version of a script for editing: 0 is the candidate, and the active version if there is none. */
export async function open({ tenant, name }: Name, version = 0n): Promise<Opened> {
  const { release } = await registry().get({ tenant, name });
  const number = version || release?.candidate?.version || release?.active?.number || 0n;
  const source = await registry().getSource({ tenant, name, version: number });
  const base = requestOf(release!, source);
  return { base, release, draft: { request: base, baseRevision: release!.revision, baseVersion: number, dirty: false } };
}

/** requestOf is what publishes a version again, as it is. */
function requestOf(release: Release, { version, source, settings }: GetSourceResponse): PublishRequest {
  const plan = release.settings?.rollout;
  const history = release.settings?.historyLimit ?? 0;
  return create(PublishRequestSchema, {
    tenant: release.tenant,
    name: release.name,
    source: settings?.artifact ? new Uint8Array() : source,
    engine: version ? engineOf(version) : 'lua',
    entrypoint: version?.entrypoint ?? '',
    enabled: release.enabled,
    pin: declared(release),
    // The plan and the length of the history are of the script, not of a version.
    settings: { ...(settings ?? create(SettingsSchema)), rollout: plan, historyLimit: history, libraries: [] },
  });
}

/** declared is the version that publishers pin: a hold is a person's, and not part of a manifest. */
const declared = (r: Release): bigint => r.hold?.declared ?? (r.pinned ? (r.active?.number ?? 0n) : 0n);

/** begin is the draft of a script that does not exist yet. */
export function begin(request: PublishRequest): Opened {
  return { base: create(PublishRequestSchema, { tenant: request.tenant, name: request.name }), release: undefined, draft: { request, baseRevision: 0n, baseVersion: 0n, dirty: true } };
}
