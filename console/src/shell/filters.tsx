import { $, component$, useSignal, useTask$, useVisibleTask$ } from '@builder.io/qwik';
import { useChangeQuery } from './query';

interface TextProps {
  label: string;
  /** The parameter of the URL. */
  name: string;
  /** The value in the URL. */
  value: string;
  placeholder?: string;
  type?: 'search' | 'text' | 'number' | 'date';
  /** How many characters the field shows. */
  size?: number;
}

const typing = 50;

/** TextFilter is a field for a parameter of the URL. The URL follows a moment after typing. */
export const TextFilter = component$<TextProps>(({ label, name, value, placeholder, type = 'search', size = 20 }) => {
  const typed = useSignal(value);
  const sent = useSignal(value);
  const change = useChangeQuery();

  // A new value in the URL replaces the text, unless it is the text that was typed a moment ago.
  useTask$(({ track }) => {
    track(() => value);
    if (value !== sent.value) {
      sent.value = typed.value = value;
    }
  });

  useVisibleTask$(({ track, cleanup }) => {
    const text = track(() => typed.value);
    if (text === sent.value) {
      return;
    }
    const timer = setTimeout(() => {
      sent.value = text;
      void change({ [name]: text.trim() || undefined });
    }, typing);
    cleanup(() => clearTimeout(timer));
  });

  return (
    <label>
      {label}
      <input type={type} name={name} value={typed.value} placeholder={placeholder} size={size} onInput$={$((_: Event, input: HTMLInputElement) => (typed.value = input.value))} autocomplete="off" spellcheck={false} />
    </label>
  );
});

/** The ages of what a list shows, in hours. */
export const ages: [string, string][] = [['', 'All that are kept'], ['1', 'The last hour'], ['24', 'The last day'], ['168', 'The last week'], ['720', 'The last 30 days']];

interface ChoiceProps {
  label: string;
  name: string;
  value: string;
  /** Values and their texts. The empty value removes the parameter. */
  options: [string, string][];
}

/** ChoiceFilter is a list of values for a parameter of the URL. */
export const ChoiceFilter = component$<ChoiceProps>(({ label, name, value, options }) => {
  const change = useChangeQuery();
  return (
    <label>
      {label}
      <select name={name} onChange$={$((_: Event, select: HTMLSelectElement) => change({ [name]: select.value || undefined }))}>
        {options.map(([v, text]) => (
          <option key={v} value={v} selected={v === value}>{text}</option>
        ))}
      </select>
    </label>
  );
});
