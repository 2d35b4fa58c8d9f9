import type { Signal } from '@builder.io/qwik';
import { ownerText } from './owner';

/** PastOwner lets a person make a change that the owner of the script would have to make. */
export const PastOwner = ({ owner, force, label }: { owner: string; force: Signal<boolean>; label: string }) => (
  <>
    <p class="notice warn">{ownerText(owner)}</p>
    <label><input type="checkbox" bind:checked={force} /> {label} (needs the role admin)</label>
  </>
);
