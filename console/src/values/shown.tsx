import { bytes } from '~/ui/number';
import { plainLines } from '~/ui/plain';
import { pretty } from '~/ui/json';
import { contentOf } from './content';

/** Shown shows the content of a value. */
export const Shown = ({ content }: { content: Uint8Array }) => {
  const c = contentOf(content);
  if (content.length === 0) {
    return <p class="faint">The content is empty.</p>;
  }
  return c.kind === 'binary' ? (
    <>
      <p class="faint">The content is not text. These are the first of its {bytes(content.length)}:</p>
      <pre class="wrap" tabIndex={0} aria-label="Content">{c.head}</pre>
    </>
  ) : (
    <pre class="wrap" tabIndex={0} aria-label="Content">{plainLines(c.kind === 'json' ? pretty(c.text) : c.text)}</pre>
  );
};
