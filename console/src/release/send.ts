import { failureOf, mayHaveHappened } from '~/api/failure';
import type { Draft } from '~/editor/draft';
import type { PublishResponse } from '~/gen/proto/registry/v1/registry_pb';
import { publish, type Checked, type Options } from './check';
import { answered, sending, unansweredOf } from './sent';

/** send publishes a draft that was checked. A draft whose last publish has no answer is sent once more under the same request id. */
export const send = (draft: Draft, checked: Checked, options: Omit<Options, 'revision' | 'requestId'>): Promise<PublishResponse> =>
  deliver(draft, sending(draft.request, checked, options));

/**
 * sendAgain repeats a publish without an answer, now that the release has another revision than it expects. Nothing new can happen: the
 * registry returns the answer to the first one, or refuses this one. sendAgain returns undefined if somebody else changed the release.
 */
export async function sendAgain(draft: Draft, revision: bigint): Promise<PublishResponse | undefined> {
  const sent = unansweredOf(draft.request);
  return sent && sent.options.revision < revision ? deliver(draft, sent.options).catch(() => undefined) : undefined;
}

async function deliver(draft: Draft, options: Options): Promise<PublishResponse> {
  try {
    const response = await publish(draft, options, AbortSignal.timeout(60_000));
    answered(draft.request);
    return response;
  } catch (e) {
    if (!mayHaveHappened(failureOf(e))) {
      answered(draft.request); // The registry refused it: the next try is another request.
    }
    throw e;
  }
}
