import { registry } from '~/api/client';
import type { Name } from '~/script/name';
import { signed } from './write';

/** force goes past the owner of the script, which needs the role admin. */

export async function setEnabled(name: Name, enabled: boolean, note: string, force: boolean): Promise<void> {
  await registry().setEnabled({ ...name, enabled, force, ...(await signed(note)) });
}

/** rollBack with a revision fails if the script has another one by now. */
export async function rollBack(name: Name, version: bigint, note: string, expectedRevision = 0n): Promise<void> {
  await registry().rollback({ ...name, version, expectedRevision, ...(await signed(note)) });
}

/** hold keeps the script at a version, which goes live if it is not. */
export async function hold(name: Name, version: bigint, note: string): Promise<void> {
  await registry().pin({ ...name, version, ...(await signed(note)) });
}

export async function releaseHold(name: Name, note: string): Promise<void> {
  await registry().liftHold({ ...name, ...(await signed(note)) });
}

export async function remove(name: Name, note: string, force: boolean): Promise<void> {
  await registry().delete({ ...name, force, ...(await signed(note)) });
}
