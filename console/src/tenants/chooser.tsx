import { $, component$, useId, useSignal, useTask$, useVisibleTask$ } from '@builder.io/qwik';
import { useChangeQuery, type Parameters } from '~/shell/query';
import { tenantNames } from './names';

interface Props {
  /** The value in the URL. */
  value: string;
  /** The label for no tenant, such as "all tenants". Without it, the person must choose a tenant. */
  any?: string;
  /** Parameters that belong to the tenant. Another tenant clears them. */
  clears?: string[];
}

const typing = 50;

/** TenantChooser suggests tenants, and takes any name. Its value is the parameter tenant of the URL. */
export const TenantChooser = component$<Props>(({ value, any, clears = ['name'] }) => {
  const id = useId();
  const typed = useSignal(value);
  const open = useSignal(false);
  const at = useSignal(-1);
  const names = useSignal<string[]>([]);
  const change = useChangeQuery();

  useTask$(({ track }) => {
    typed.value = track(() => value);
  });

  useVisibleTask$(({ track, cleanup }) => {
    const text = track(() => typed.value).trim();
    if (!track(() => open.value)) {
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      // A chosen name does not filter the suggestions.
      const found = await tenantNames(text === value ? '' : text, abort.signal);
      if (!abort.signal.aborted) {
        const chosen = names.value[at.value];
        names.value = found;
        at.value = chosen === undefined ? -1 : found.indexOf(chosen);
      }
    }, typing);
    cleanup(() => {
      clearTimeout(timer);
      abort.abort();
    });
  });

  const choose = $(async (name: string) => {
    typed.value = name;
    open.value = false;
    at.value = -1;
    if (name !== value) {
      const parameters: Parameters = { tenant: name || undefined };
      clears.forEach((c) => (parameters[c] = undefined));
      await change(parameters);
    }
  });

  const onKey = $(async (event: KeyboardEvent) => {
    const n = names.value.length;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      open.value = true;
      at.value = n === 0 ? -1 : event.key === 'ArrowDown' ? (at.value + 1) % n : (at.value + n - (at.value < 0 ? 0 : 1)) % n;
    } else if (event.key === 'Enter') {
      await choose(names.value[at.value] ?? typed.value.trim());
    } else if (event.key === 'Escape') {
      open.value = false;
    }
  });

  return (
    <div class="combo">
      <label for={id}>Tenant</label>
      <input
        id={id}
        name="tenant"
        value={typed.value}
        placeholder={any ?? 'such as acme'}
        role="combobox"
        aria-expanded={open.value && names.value.length > 0}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={at.value >= 0 ? `${id}-${at.value}` : undefined}
        autocomplete="off"
        spellcheck={false}
        onFocus$={() => (open.value = true)}
        onInput$={(_, input) => {
          typed.value = input.value;
          open.value = true;
          // The arrow keys choose no name of the list before.
          names.value = names.value.filter((n) => n.includes(input.value.trim()));
          at.value = -1;
        }}
        onKeyDown$={onKey}
        onBlur$={() => choose(typed.value.trim())}
      />
      <ul id={`${id}-list`} class="palette combo-list" role="listbox" aria-label="Tenants" hidden={!open.value || names.value.length === 0}>
        {names.value.map((name, i) => (
          <li key={name} id={`${id}-${i}`} role="option" aria-selected={i === at.value} preventdefault:mousedown onMouseDown$={() => choose(name)}>{name}</li>
        ))}
      </ul>
    </div>
  );
});
