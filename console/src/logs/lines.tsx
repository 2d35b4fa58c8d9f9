import { $, component$, useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { scriptHref } from '~/script/name';
import { Link } from '~/shell/link';
import { agentHref } from '~/shell/query';
import { Modal } from '~/ui/modal';
import { useOpened } from '~/ui/opened';
import { plain, plainLines } from '~/ui/plain';
import { milliseconds, Time, utc } from '~/ui/time';
import { lineHeight, useWindow } from '~/ui/window';
import type { Line } from './buffer';

interface Props {
  lines: Line[];
  /** How many earlier lines the page has dropped. */
  dropped: number;
  atEnd: Signal<boolean>;
}

/** Lines renders only the lines in its box. It follows the end while the person is there, and otherwise stays where the person reads. */
export const Lines = component$<Props>(({ lines, dropped, atEnd }) => {
  const seen = useWindow(lineHeight);
  const gone = useSignal(0);
  const { item, open, show$ } = useOpened<Line>();

  useVisibleTask$(({ track }) => {
    const all = track(() => lines);
    const end = track(() => atEnd.value);
    const box = seen.viewport.value;
    if (!box) {
      return;
    }
    if (end) {
      box.scrollTop = all.length * lineHeight;
    } else {
      // Dropped lines were above the lines that the person reads.
      box.scrollTop -= (dropped - gone.value) * lineHeight;
    }
    gone.value = dropped;
    void seen.onScroll$();
  });

  const onScroll = $(async () => {
    await seen.onScroll$();
    const box = seen.viewport.value;
    if (box) {
      atEnd.value = box.scrollTop + box.clientHeight >= box.scrollHeight - 2 * lineHeight;
    }
  });

  const from = Math.min(seen.from.value, lines.length);
  const to = Math.min(seen.to.value, lines.length);
  return (
    <>
      <div class="lines" ref={seen.viewport} onScroll$={onScroll} tabIndex={0} role="log" aria-live="off" aria-label="Lines">
        <div style={{ height: `${from * lineHeight}px` }}></div>
        <ol>
          {lines.slice(from, to).map((l) => (
            <li key={l.id}>
              <span class="at" title={utc(milliseconds(l.line.time) ?? 0)}>{clock(l)}</span>
              <span class={['level', tone(l.line.level)]}>{plain(l.line.level).padEnd(5)}</span>
              <span class="at">{plain(l.agent)}</span>
              <span class="at">{plain(`${l.line.name}@${l.line.version}`)}</span>
              <button type="button" onClick$={() => show$(l)}>{plain(l.line.message)}</button>
            </li>
          ))}
        </ol>
        <div style={{ height: `${(lines.length - to) * lineHeight}px` }}></div>
      </div>
      <Modal open={open} title="Line" wide>{item.value && <Whole l={item.value} />}</Modal>
    </>
  );
});

const Whole = ({ l: { agent, line } }: { l: Line }) => {
  const name = `${line.tenant}/${line.name}`;
  return (
    <>
      <pre class="wrap">{plainLines(line.message)}</pre>
      <dl class="facts">
        <dt>Time</dt><dd><Time at={line.time} /> <span class="faint">{new Date(milliseconds(line.time) ?? 0).toISOString()}</span></dd>
        <dt>Level</dt><dd>{plain(line.level)}</dd>
        <dt>Script</dt><dd><Link href={scriptHref(name)}>{plain(name)}</Link> version {String(line.version)}</dd>
        <dt>Agent</dt><dd><Link href={agentHref(agent)}>{plain(agent)}</Link></dd>
        {line.traceId && <><dt>Trace</dt><dd class="mono">{plain(line.traceId)}</dd></>}
      </dl>
    </>
  );
};

function clock({ line }: Line): string {
  const at = new Date(milliseconds(line.time) ?? 0);
  return `${at.toLocaleTimeString([], { hour12: false })}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}

const tone = (level: string): string => (level === 'error' ? 'bad' : level === 'warn' ? 'warn' : '');
