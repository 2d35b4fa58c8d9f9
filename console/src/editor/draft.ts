import type { PublishRequest } from '~/gen/proto/registry/v1/registry_pb';

/** Draft is what a person has written and not yet published. */
export interface Draft {
  request: PublishRequest;
  /** Of the release that the draft began with; 0 for a new script. */
  baseRevision: bigint;
  /** The version that the draft began with; 0 for a new script. */
  baseVersion: bigint;
  dirty: boolean;
}
