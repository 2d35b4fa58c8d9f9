import type { Signal } from '@builder.io/qwik';
import { ownerText } from './owner';

/** PastOwner lets an administrator change a script past its owner. */
export const PastOwner = ({ owner, force, label }: { owner: string; force: Signal<boolean>; label: string }) => (
  <>
    <p class="notice warn">{ownerText(owner)}</p>
    <label><input type="checkbox" bind:checked={force} /> {label} (needs the role admin)</label>
  </>
);
