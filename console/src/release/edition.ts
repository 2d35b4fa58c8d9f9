import { registry } from '~/api/client';
import type { PublishRequest } from '~/gen/proto/registry/v1/registry_pb';
import type { Release, Settings, Version } from '~/gen/proto/script/v1/script_pb';
import { engineOf } from '~/script/engine';
import type { Name } from '~/script/name';
import { plainTextOf } from '~/ui/bytes';
import { treeOf, type Tree } from './settings';

/** Edition is a version or a draft, ready for a comparison. */
export interface Edition {
  title: string;
  source: Uint8Array;
  /** The source as text; undefined for a binary one. */
  text: string | undefined;
  settings: Tree;
  raw: Settings | undefined;
  version: Version | undefined;
}

/** editionOf reads a version. The rollout plan belongs to the script, not to a version: it comes from release, if given. */
export async function editionOf(name: Name, number: bigint, release: Release | undefined, signal: AbortSignal): Promise<Edition> {
  const answer = await registry().getSource({ ...name, version: number }, { signal });
  const version = answer.version!;
  const settings = { ...answer.settings!, rollout: release?.settings?.rollout, historyLimit: release?.settings?.historyLimit ?? 0 };
  return {
    title: `version ${version.number}`,
    source: answer.source,
    text: plainTextOf(answer.source),
    settings: whole(settings, engineOf(version), version.entrypoint),
    raw: settings,
    version,
  };
}

/** draftEdition is what a request would publish. A request without settings keeps the previous settings. */
export function draftEdition(request: PublishRequest, before: Edition | undefined): Edition {
  const raw = request.settings ?? before?.raw;
  return {
    title: 'your draft',
    source: request.source,
    text: plainTextOf(request.source),
    settings: whole(raw, request.engine || 'lua', request.entrypoint ?? 'handle'),
    raw,
    version: undefined,
  };
}

/** nothing is what a new script is compared with. */
export const nothing = (): Edition => ({ title: 'nothing', source: new Uint8Array(), text: '', settings: {}, raw: undefined, version: undefined });

const whole = (settings: Settings | undefined, engine: string, entrypoint: string): Tree => ({
  ...treeOf(settings),
  engine,
  ...(engine === 'lua' && { entrypoint }),
  ...(engine !== 'lua' && entrypoint && entrypoint !== 'handle' && { entrypoint }),
});
