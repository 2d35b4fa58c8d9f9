import { $, component$, useSignal, useTask$, type Signal } from '@builder.io/qwik';
import { useNavigate } from '@builder.io/qwik-city';
import { filterOf, states, withParameter } from './filter';

const typing = 150;

/** Filters changes the URL, which says what the list shows. */
export const Filters = component$(({ url }: { url: Signal<URL | undefined> }) => {
  const navigate = useNavigate();
  const timer = useSignal(0);
  const search = useSignal('');
  const filter = filterOf(url.value);

  useTask$(({ track }) => {
    search.value = filterOf(track(() => url.value)).search;
  });

  const set = $((name: string, value: string) => navigate(withParameter(new URL(location.href), name, value), { replaceState: true, scroll: false }));
  const onSearch = $((_: Event, input: HTMLInputElement) => {
    search.value = input.value;
    clearTimeout(timer.value);
    timer.value = window.setTimeout(() => set('q', input.value.trim()), typing);
  });

  return (
    <search class="tools">
      <label>
        Search
        <input type="search" value={search.value} onInput$={onSearch} placeholder="acme route" maxLength={200} spellcheck={false} />
      </label>
      <label>
        Tenant
        <input value={filter.tenant} onChange$={(_, e) => set('tenant', e.value.trim())} size={12} maxLength={63} spellcheck={false} />
      </label>
      <label>
        Trigger
        <input value={filter.trigger} onChange$={(_, e) => set('trigger', e.value.trim())} size={12} maxLength={63} spellcheck={false} />
      </label>
      <label>
        State
        <select onChange$={(_, e) => set('state', e.value)}>
          {states.map((s) => (
            <option key={s.word} value={s.word} selected={s.state === filter.state}>{s.title}</option>
          ))}
        </select>
      </label>
    </search>
  );
});
