import { $, component$, useSignal, useTask$ } from '@builder.io/qwik';
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

/** TextFilter is a field for a parameter of the URL. */
export const TextFilter = component$<TextProps>(({ label, name, value, placeholder, type = 'search', size = 20 }) => {
  const text = useSignal(value);
  const field = useSignal<HTMLInputElement>();
  const change = useChangeQuery();

  // A new value in the URL replaces the text, unless somebody is typing: then the URL is a moment behind.
  useTask$(({ track }) => {
    track(() => value);
    if (!field.value?.matches(':focus')) {
      text.value = value;
    }
  });

  const follow = $((_: Event, input: HTMLInputElement) => {
    text.value = input.value;
    return change({ [name]: input.value.trim() || undefined });
  });

  return (
    <label>
      {label}
      <input ref={field} type={type} name={name} value={text.value} placeholder={placeholder} size={size} onInput$={follow} autocomplete="off" spellcheck={false} />
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
