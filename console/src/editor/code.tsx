import { component$, noSerialize, useSignal, useTask$, useVisibleTask$, type NoSerialize, type QRL } from '@builder.io/qwik';
import type { Mark } from './mark';
import type { Place, Problem } from './problem';
import type { Code, Language } from './view';

/** Content is what an editor begins with. A new edition replaces the editor's text; text alone does not, because it comes from the editor. */
export interface Content {
  text: string;
  edition: number;
}

interface Props {
  label: string;
  language: Language;
  content: Content;
  onEdit$: QRL<(text: string) => void>;
  problems?: Problem[];
  mark?: Mark | undefined;
  place?: Place | undefined;
  /** JSON, for completion. */
  config?: string;
  readOnly?: boolean;
  /** For the height. */
  size?: 'small' | 'large';
}

const none: Problem[] = [];

/** CodeEditor is an editor for code. A page without one does not load CodeMirror. */
export const CodeEditor = component$<Props>((props) => {
  const host = useSignal<HTMLElement>();
  const code = useSignal<NoSerialize<Code>>();
  const config = useSignal('');
  const shown = useSignal(props.content.edition);
  config.value = props.config ?? '';

  useVisibleTask$(
    async ({ cleanup }) => {
      let gone = false;
      cleanup(() => {
        gone = true;
        code.value?.destroy();
      });
      const [{ openCode }] = await Promise.all([import('./view'), props.onEdit$.resolve()]);
      if (gone || !host.value) {
        return;
      }
      code.value = noSerialize(
        openCode(host.value, {
          text: props.content.text,
          language: props.language,
          label: props.label,
          readOnly: props.readOnly ?? false,
          onEdit: (text) => void props.onEdit$(text),
          config: () => parsed(config.value),
        }),
      );
    },
    { strategy: 'document-ready' },
  );

  useTask$(({ track }) => {
    const view = track(() => code.value);
    const { text, edition } = track(() => props.content);
    if (view && edition !== shown.value) {
      view.replace(text);
    }
    shown.value = edition;
  });
  useTask$(({ track }) => {
    const view = track(() => code.value);
    view?.problems(track(() => props.problems) ?? none);
  });
  useTask$(({ track }) => {
    const view = track(() => code.value);
    view?.mark(track(() => props.mark));
  });
  useTask$(({ track }) => {
    const view = track(() => code.value);
    const place = track(() => props.place);
    if (place) {
      view?.goTo(place);
    }
  });

  return <div ref={host} class={['code', props.size ?? 'large']}></div>;
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
