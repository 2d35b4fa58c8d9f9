import type { Failure } from '~/api/failure';
import { text } from '~/api/failure';

/** Problem shows an error in the place of the content. */
export const Problem = ({ failure }: { failure: Failure | undefined }) =>
  failure && !failure.canceled ? <p class="error" role="alert">{text(failure)}</p> : null;
