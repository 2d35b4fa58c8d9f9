import { component$ } from '@builder.io/qwik';
import type { Choices, Conflict } from './conflict';
import type { Choice, Piece } from './merge';
import { clip } from './rows';

const choicesOf: { value: Choice; title: string }[] = [
  { value: 'theirs', title: 'Take theirs' },
  { value: 'mine', title: 'Take yours' },
  { value: 'both', title: 'Take both, theirs first' },
];

/** SourceConflicts shows the changes of both people in the source, and asks about overlaps. */
export const SourceConflicts = component$(({ conflict, choices }: { conflict: Conflict; choices: Choices }) => {
  const pieces = conflict.source;
  const clashes = pieces.filter((p) => p.kind === 'conflict').length;
  if (pieces.every((p) => p.kind === 'same')) {
    return conflict.release ? <p class="faint">The source is the same in both.</p> : null;
  }
  let line = 1;
  let clash = 0;
  return (
    <section aria-label="Source">
      <h3>Source</h3>
      {clashes === 0 && <p class="faint">The changes do not overlap: both are taken.</p>}
      <div class="pieces">
        {pieces.map((p, i) => {
          const at = line;
          line += p.base.length;
          return p.kind === 'conflict' ? (
            <Clash key={i} piece={p} at={at} title={`Overlap ${++clash} of ${clashes}`} chosen={choices.source[i]} number={i} choices={choices} binary={conflict.mine.text === undefined} />
          ) : p.kind === 'same' ? (
            <Same key={i} lines={p.base} first={i === 0} last={i === pieces.length - 1} />
          ) : (
            <Changed key={i} piece={p} />
          );
        })}
      </div>
    </section>
  );
});

const around = 3;

const Same = ({ lines, first, last }: { lines: string[]; first: boolean; last: boolean }) => {
  const before = first ? [] : lines.slice(0, around);
  const after = last ? [] : lines.slice(Math.max(before.length, lines.length - around));
  const hidden = lines.length - before.length - after.length;
  return (
    <>
      {before.length > 0 && <Block lines={before} />}
      {hidden > 0 && <p class="gap">{hidden.toLocaleString()} {hidden === 1 ? 'line that is' : 'lines that are'} the same</p>}
      {after.length > 0 && <Block lines={after} />}
    </>
  );
};

export const who = { theirs: 'Theirs', mine: 'Yours', both: 'Theirs and yours', same: '', conflict: '' };

const Changed = ({ piece }: { piece: Piece }) => (
  <div class="changed">
    <span class="tag accent">{who[piece.kind]}</span>
    <Block lines={piece.base} kind="removed" />
    <Block lines={piece.kind === 'theirs' ? piece.theirs : piece.mine} kind="added" />
  </div>
);

interface ClashProps {
  piece: Piece;
  at: number;
  title: string;
  chosen: Choice | undefined;
  number: number;
  choices: Choices;
  binary: boolean;
}

const Clash = component$<ClashProps>(({ piece, at, title, chosen, number, choices, binary }) => (
  <fieldset class="clash">
    <legend>{title}{binary ? '' : `, line ${at}`}</legend>
    <Sides base={piece.base} theirs={piece.theirs} mine={piece.mine} />
    <div class="choice">
      {choicesOf.filter((c) => !binary || c.value !== 'both').map((c) => (
        <label key={c.value}>
          <input type="radio" name={`source-${number}`} checked={chosen === c.value} onChange$={() => { choices.source[number] = c.value; }} /> {c.title}
        </label>
      ))}
    </div>
  </fieldset>
));

/** Sides shows what was there, and what each of the two people made of it. */
export const Sides = ({ base, theirs, mine }: { base: string[]; theirs: string[]; mine: string[] }) => (
  <div class="sides">
    <Side title="Before" lines={base} />
    <Side title="Theirs" lines={theirs} />
    <Side title="Yours" lines={mine} />
  </div>
);

const Side = ({ title, lines }: { title: string; lines: string[] }) => (
  <div>
    <h4>{title}</h4>
    <Block lines={lines} empty="Nothing" />
  </div>
);

const mostLines = 300;
const signs = { removed: '− ', added: '+ ', same: '' };

/** Block shows lines, up to a bound. */
const Block = ({ lines, kind = 'same', empty }: { lines: string[]; kind?: 'removed' | 'added' | 'same'; empty?: string }) => {
  if (lines.length === 0) {
    return empty ? <p class="faint">{empty}</p> : null;
  }
  const more = lines.length - mostLines;
  return (
    <pre class={kind} tabIndex={0}>
      {lines.slice(0, mostLines).map((line) => `${signs[kind]}${clip(line)}\n`).join('')}
      {more > 0 ? `… and ${more.toLocaleString()} lines more` : ''}
    </pre>
  );
};
