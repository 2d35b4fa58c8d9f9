import type { PublishRequest } from '~/gen/proto/registry/v1/registry_pb';
import type { Checked } from './check';
import { newRequest } from './write';

/** Sent is a publish whose answer has not arrived. */
interface Sent {
  requestId: string;
  /** What the draft was checked against: sent again, a publish expects the same revision. */
  checked: Checked;
}

/**
 * The publishes without an answer, by the request of their draft: a draft that changes has another one. The registry applies a request id
 * once, so a repeated publish must have the same one, also after the dialog was closed or the person was on another page.
 */
const unanswered = new WeakMap<PublishRequest, Sent>();

export const unansweredOf = (draft: PublishRequest): Sent | undefined => unanswered.get(draft);

/** sending returns what to send: once more what was sent before, if that has no answer. */
export function sending(draft: PublishRequest, checked: Checked): Sent {
  const sent = unanswered.get(draft) ?? { requestId: newRequest(), checked };
  unanswered.set(draft, sent);
  return sent;
}

export const answered = (draft: PublishRequest): boolean => unanswered.delete(draft);
