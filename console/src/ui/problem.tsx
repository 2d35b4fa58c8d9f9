import type { Failure } from '~/api/failure';
import { text } from '~/api/failure';

/** Problem shows an error where what it is about would stand. */
export const Problem = ({ failure }: { failure: Failure | undefined }) =>
  failure && !failure.canceled ? <p class="error" role="alert">{text(failure)}</p> : null;
