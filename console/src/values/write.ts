import { caller } from '~/api/caller';
import { registry } from '~/api/client';
import { expecting } from '~/api/expect';
import { failureOf } from '~/api/failure';
import type { Value } from '~/gen/proto/script/v1/script_pb';

/** Kept is a version of a value with its content. */
export interface Kept {
  value: Value;
  content: Uint8Array;
}

/** read returns undefined if there is no such key. */
export async function read(tenant: string, key: string, version = 0n, signal?: AbortSignal): Promise<Kept | undefined> {
  try {
    const { value, content } = await registry().getValue({ tenant, key, version }, signal ? { signal } : {});
    return value && { value, content };
  } catch (error) {
    if (failureOf(error).kind === 'NOTFOUND') {
      return undefined;
    }
    throw error;
  }
}

/** put writes the content if the value still has the revision; with 0, if there is still no such key. */
export async function put(tenant: string, key: string, content: Uint8Array, note: string, revision: bigint): Promise<void> {
  await registry().putValue({ tenant, key, content, note, expectedRevision: expecting(revision), author: await caller() });
}

/** remove returns the revision of the tombstone. */
export async function remove(tenant: string, key: string, note: string, expectedRevision: bigint): Promise<bigint> {
  const { value } = await registry().deleteValue({ tenant, key, note, expectedRevision, author: await caller() });
  return value?.revision ?? 0n;
}

/** rollBack restores an older version; 0 is the previous one. */
export async function rollBack(tenant: string, key: string, version: bigint, note: string, expectedRevision: bigint): Promise<void> {
  await registry().rollbackValue({ tenant, key, version, note, expectedRevision, author: await caller() });
}
