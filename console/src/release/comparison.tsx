import { component$ } from '@builder.io/qwik';
import { sameBytes } from '~/ui/bytes';
import { bytes } from '~/ui/number';
import type { Edition } from './edition';
import { sections } from './settings';
import { equal, print } from './tree';
import { DiffView } from './view';

interface Props {
  before: Edition;
  after: Edition;
  split?: boolean;
}

/** Comparison shows what is different between two editions: the source, and each part of the settings. */
export const Comparison = component$<Props>(({ before, after, split }) => {
  const changed = sections.filter(({ name }) => !equal(before.settings[name], after.settings[name]));
  const sameSource = sameBytes(before.source, after.source);
  if (sameSource && changed.length === 0) {
    return <p class="empty">There is no difference between {before.title} and {after.title}.</p>;
  }
  return (
    <div class="comparison">
      <p class="faint">− {before.title} &nbsp; + {after.title}</p>
      <section>
        <h3>Source</h3>
        {sameSource ? <p class="faint">The source is the same.</p> : <Sources before={before} after={after} split={split} />}
      </section>
      {changed.map(({ name, title }) => (
        <section key={name}>
          <h3>{title}</h3>
          <DiffView
            before={print(before.settings[name]).join('\n')}
            after={print(after.settings[name]).join('\n')}
            label={`${title}: ${before.title} and ${after.title}`}
            split={split}
          />
        </section>
      ))}
      {changed.length === 0 && <p class="faint">The settings are the same.</p>}
    </div>
  );
});

const Sources = ({ before, after, split }: Props) =>
  before.text === undefined || after.text === undefined ? (
    <p>A binary source: {bytes(before.source.length)} before, {bytes(after.source.length)} after.</p>
  ) : (
    <DiffView before={before.text} after={after.text} label={`Source: ${before.title} and ${after.title}`} split={split} />
  );
