import { isBySystem } from './change';

/** By says who made a change: a person, or the registry itself. */
export const By = ({ entry }: { entry: { author: string } }) =>
  isBySystem(entry) ? <span class="tag" title="The registry decided this by the plan">registry</span> : <>{entry.author}</>;
