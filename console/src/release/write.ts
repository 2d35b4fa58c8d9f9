import { caller } from '~/api/caller';
import { hex } from '~/ui/bytes';

/** Signature is in each change: who makes it, and why. */
interface Signature {
  author: string;
  note: string;
  requestId: string;
}

/** signed makes the signature of one change. The registry makes a change once, even if a client repeats it after a lost answer. */
export async function signed(note: string, requestId = newRequest()): Promise<Signature> {
  return { author: await caller(), note, requestId };
}

export const newRequest = (): string => hex(crypto.getRandomValues(new Uint8Array(16)));
