import { StateEffect, StateField, type Extension } from '@codemirror/state';
import { Decoration, EditorView, WidgetType, type DecorationSet } from '@codemirror/view';

/** Mark is a line at which a call failed. */
export interface Mark {
  /** From 1. */
  line: number;
  message: string;
}

const longest = 200;

class Why extends WidgetType {
  constructor(readonly message: string) {
    super();
  }
  override eq(other: Why): boolean {
    return other.message === this.message;
  }
  toDOM(): HTMLElement {
    const span = document.createElement('span');
    span.className = 'cm-why';
    span.textContent = this.message.length > longest ? `${this.message.slice(0, longest)}…` : this.message;
    return span;
  }
}

const setMark = StateEffect.define<Mark | undefined>();

const field = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let now = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(setMark)) {
        continue;
      }
      const mark = effect.value;
      const { doc } = transaction.state;
      if (!mark || mark.line < 1 || mark.line > doc.lines) {
        now = Decoration.none;
        continue;
      }
      const line = doc.line(mark.line);
      now = Decoration.set([Decoration.line({ class: 'cm-failed' }).range(line.from), Decoration.widget({ widget: new Why(mark.message), side: 1 }).range(line.to)]);
    }
    return now;
  },
  provide: (f) => EditorView.decorations.from(f),
});

/** marks shows the line at which the last call failed. It moves with the text until another call. */
export const marks: Extension = field;

export const showMark = (view: EditorView, mark: Mark | undefined): void => view.dispatch({ effects: setMark.of(mark) });
