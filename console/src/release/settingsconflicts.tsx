import { component$ } from '@builder.io/qwik';
import type { Choices, Conflict } from './conflict';
import { sections } from './settings';
import { Sides, who } from './sourceconflicts';
import { pathKey, print, type Difference, type Json } from './tree';

/** SettingsConflicts lists the changed settings, and asks about the settings that both people changed. */
export const SettingsConflicts = component$(({ conflict, choices }: { conflict: Conflict; choices: Choices }) => {
  const found = conflict.settings;
  if (found.length === 0) {
    return conflict.release ? <p class="faint">The settings are the same in both.</p> : null;
  }
  const clashes = found.filter((d) => d.kind === 'conflict');
  const rest = found.filter((d) => d.kind !== 'conflict');
  return (
    <section aria-label="Settings">
      <h3>Settings</h3>
      {clashes.map((d) => <Clash key={pathKey(d.path)} difference={d} choices={choices} />)}
      {rest.length > 0 && (
        <ul class="taken">
          {rest.map((d) => (
            <li key={pathKey(d.path)}>
              <span class="tag accent">{who[d.kind]}</span> {titleOf(d)}: <code>{short(d.base)}</code> → <code>{short(d.kind === 'theirs' ? d.theirs : d.mine)}</code>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
});

const Clash = component$(({ difference: d, choices }: { difference: Difference; choices: Choices }) => {
  const key = pathKey(d.path);
  return (
    <fieldset class="clash">
      <legend>{titleOf(d)}</legend>
      <Sides base={print(d.base)} theirs={print(d.theirs)} mine={print(d.mine)} />
      <div class="choice">
        {(['theirs', 'mine'] as const).map((side) => (
          <label key={side}>
            <input type="radio" name={`settings-${key}`} checked={choices.settings[key] === side} onChange$={() => { choices.settings[key] = side; }} />{' '}
            {side === 'theirs' ? 'Take theirs' : 'Take yours'}
          </label>
        ))}
      </div>
    </fieldset>
  );
});

/** titleOf is "Config: pools / cart". */
function titleOf(d: Difference): string {
  const [first = '', ...rest] = d.path;
  const title = sections.find((s) => s.name === first)?.title ?? first;
  return rest.length > 0 ? `${title}: ${rest.join(' / ')}` : title;
}

function short(v: Json | undefined): string {
  const text = v === undefined ? 'nothing' : JSON.stringify(v);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}
