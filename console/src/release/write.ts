import { caller } from '~/api/caller';

/** Signature is what each change carries about who makes it. */
export interface Signature {
  author: string;
  note: string;
  requestId: string;
}

/** signed is for one change: a change that is sent again, as nobody heard the answer, happens once. */
export async function signed(note: string, requestId = newRequest()): Promise<Signature> {
  return { author: await caller(), note, requestId };
}

export function newRequest(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
}
