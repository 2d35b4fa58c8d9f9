import { $, component$, type Signal } from '@builder.io/qwik';

interface Props {
  label: string;
  tabs: { id: string; title: string }[];
  at: Signal<string>;
}

/** Tabs are the parts of a page. Arrow keys go from one to the next. The panel of each has the id panel-ID. */
export const Tabs = component$<Props>(({ label, tabs, at }) => {
  const onKey = $((event: KeyboardEvent, list: HTMLElement) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const i = tabs.findIndex((t) => t.id === at.value);
      const next = tabs[(i + step + tabs.length) % tabs.length]!;
      at.value = next.id;
      list.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
    }
  });
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown$={onKey}>
      {tabs.map((t) => (
        <button
          key={t.id}
          type="button"
          role="tab"
          id={`tab-${t.id}`}
          aria-controls={`panel-${t.id}`}
          aria-selected={t.id === at.value}
          tabIndex={t.id === at.value ? 0 : -1}
          onClick$={() => (at.value = t.id)}
        >
          {t.title}
        </button>
      ))}
    </div>
  );
});
