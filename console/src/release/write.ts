import { caller } from '~/api/caller';
import { hex } from '~/ui/bytes';

/** Signature is what each change carries about who makes it. */
interface Signature {
  author: string;
  note: string;
  requestId: string;
}

/** signed is for one change: a change that is sent again, as nobody heard the answer, happens once. */
export async function signed(note: string, requestId = newRequest()): Promise<Signature> {
  return { author: await caller(), note, requestId };
}

export const newRequest = (): string => hex(crypto.getRandomValues(new Uint8Array(16)));
