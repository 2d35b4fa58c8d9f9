import { $, component$, useSignal, useTask$, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { useNavigate } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import { Modal } from '~/ui/modal';
import { scriptHref } from '~/script/name';
import { pages } from './pages';

interface Entry {
  href: string;
  title: string;
  kind: string;
}

const typing = 50;

/** Palette goes to a page or a script by its name, without the mouse. */
export const Palette = component$(({ open }: { open: Signal<boolean> }) => {
  const query = useSignal('');
  const at = useSignal(0);
  const entries = useSignal<Entry[]>([]);
  // The texts for which entries has pages, for which it has scripts, too, and for which the person pressed Enter before.
  const listed = useSignal<string>();
  const answered = useSignal<string>();
  const wanted = useSignal<string>();
  const navigate = useNavigate();

  const go = $(async (e: Entry | undefined) => {
    if (e) {
      open.value = false;
      query.value = '';
      await navigate(e.href);
    }
  });

  useTask$(({ track, cleanup }) => {
    const typed = track(() => query.value);
    const q = typed.trim().toLowerCase();
    if (!track(() => open.value)) {
      wanted.value = undefined;
      return;
    }
    const found = pages.filter((p) => p.title.toLowerCase().includes(q)).map((p) => ({ href: p.href, title: p.title, kind: 'Page' }));
    entries.value = found;
    at.value = 0;
    listed.value = typed;
    answered.value = undefined;
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      // The pages are found without the registry.
      const more = await scripts(q, abort.signal).catch((): Entry[] => []);
      if (abort.signal.aborted) {
        return;
      }
      entries.value = [...found, ...more];
      answered.value = typed;
      if (wanted.value === typed) {
        await go(entries.value[at.value]);
      }
    }, typing);
    cleanup(() => {
      clearTimeout(timer);
      abort.abort();
    });
  });

  const onKey = $(async (event: KeyboardEvent) => {
    const n = entries.value.length;
    if (event.key === 'ArrowDown') {
      at.value = (at.value + 1) % Math.max(n, 1);
    } else if (event.key === 'ArrowUp') {
      at.value = (at.value + n - 1) % Math.max(n, 1);
    } else if (event.key === 'Enter') {
      if (listed.value === query.value && n > 0) {
        await go(entries.value[at.value]);
      } else {
        wanted.value = query.value; // The person types a name, and Enter at once.
      }
      return;
    }
    document.getElementById(`palette-${at.value}`)?.scrollIntoView({ block: 'nearest' });
  });

  useVisibleTask$(
    ({ cleanup }) => {
      const onShortcut = (event: KeyboardEvent) => {
        if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
          event.preventDefault();
          open.value = !open.value;
        }
      };
      document.addEventListener('keydown', onShortcut);
      cleanup(() => document.removeEventListener('keydown', onShortcut));
    },
    { strategy: 'document-ready' },
  );

  return (
    <Modal open={open} title="Go to">
      <input
        class="palette-query"
        bind:value={query}
        onKeyDown$={onKey}
        autoFocus
        placeholder="A page, or a script such as acme/route"
        aria-label="A page or a script"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={entries.value.length ? `palette-${at.value}` : undefined}
        spellcheck={false}
        autocomplete="off"
      />
      <ul id="palette-list" class="palette" role="listbox" aria-label="Found">
        {entries.value.map((e, i) => (
          <li key={e.href} id={`palette-${i}`} role="option" aria-selected={i === at.value} onClick$={() => go(e)}>
            <span>{e.title}</span> <span class="faint">{e.kind}</span>
          </li>
        ))}
      </ul>
      {answered.value === query.value && entries.value.length === 0 && <p class="faint">Nothing has this name.</p>}
    </Modal>
  );
});

async function scripts(search: string, signal: AbortSignal): Promise<Entry[]> {
  const { status } = await registry().findScripts({ search, limit: 20 }, { signal });
  return (status?.scripts ?? []).map((s) => {
    const title = `${s.release?.tenant}/${s.release?.name}`;
    return { href: scriptHref(title), title, kind: 'Script' };
  });
}
