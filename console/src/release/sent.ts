import type { PublishRequest } from '~/gen/proto/registry/v1/registry_pb';
import type { Checked, Options } from './check';
import { newRequest } from './write';

/** Sent is a publish whose answer has not arrived. */
interface Sent {
  /** What the draft was checked against: sent again, a publish expects the same revision. */
  checked: Checked;
  options: Options;
}

/**
 * The publishes without an answer, by the request of their draft: a draft that changes has another one. The registry applies a request id
 * once, so a repeated publish must have the same one, also after the dialog was closed or the person was on another page.
 */
const unanswered = new WeakMap<PublishRequest, Sent>();

export const unansweredOf = (draft: PublishRequest): Sent | undefined => unanswered.get(draft);

/** sending returns what to send: the request of before, if that has no answer. */
export function sending(draft: PublishRequest, checked: Checked, options: Omit<Options, 'revision' | 'requestId'>): Options {
  const before = unanswered.get(draft);
  const of = before?.checked ?? checked;
  const sent = { ...options, revision: of.revision, requestId: before?.options.requestId ?? newRequest() };
  unanswered.set(draft, { checked: of, options: sent });
  return sent;
}

export const answered = (draft: PublishRequest): boolean => unanswered.delete(draft);
