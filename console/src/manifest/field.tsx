import { $, component$, createContextId, useContext, type QRL, type ValueOrPromise } from '@builder.io/qwik';
import { useBench } from '~/editor/bench';
import { put } from '~/editor/unfinished';
import { parseDecimal, taken } from './values';

/** PlaceContext tells the fields of a list's members apart. */
export const PlaceContext = createContextId<{ prefix: string }>('scriptorium.place');

interface Props {
  label: string;
  value: string;
  hint?: string;
  /** The field of the request, as the registry names it in its errors. */
  path?: string;
  placeholder?: string;
  mono?: boolean;
  /** Lines of a larger field. */
  rows?: number;
  /** Takes what was typed, or says what is wrong with it. */
  take$: QRL<(text: string) => ValueOrPromise<string | undefined | void>>;
}

/** Field is one value of a form. It shows a problem below, and keeps what was typed. */
export const Field = component$<Props>(({ label, value, hint, path, placeholder, mono, rows, take$ }) => {
  const bench = useBench();
  const place = useContext(PlaceContext, { prefix: '' }).prefix + label;
  const onChange = $(async (_: Event, input: HTMLInputElement | HTMLTextAreaElement) => {
    const text = input.value;
    const problem = (await take$(text)) ?? '';
    put(bench.unfinished, place, problem ? { text, problem } : undefined);
  });
  const refused = path ? bench.check.value.problems.find((p) => p.severity === 'error' && p.line === 0 && p.field === path)?.message : undefined;
  const typed = bench.unfinished.value[place];
  const problem = typed?.problem || refused;
  const common = {
    value: typed?.text ?? value,
    placeholder,
    class: { mono },
    'aria-invalid': problem ? ('true' as const) : undefined,
    spellcheck: false,
    onChange$: onChange,
  };
  return (
    <label class="field">
      {label}
      {rows ? <textarea {...common} rows={rows}></textarea> : <input {...common} autocomplete="off" />}
      {hint && <span class="faint">{hint}</span>}
      {problem && <span class="bad" role="alert">{problem}</span>}
    </label>
  );
});

interface DecimalProps {
  label: string;
  value: number | undefined;
  placeholder?: string;
  take$: QRL<(n: number | undefined) => void>;
}

export const DecimalField = component$<DecimalProps>(({ label, value, placeholder = 'not compared', take$ }) => (
  <Field label={label} value={value === undefined ? '' : String(value)} placeholder={placeholder} take$={$((text: string) => taken(parseDecimal(text), take$))} />
));

interface CheckProps {
  label: string;
  checked: boolean;
  hint?: string;
  take$: QRL<(on: boolean) => void>;
}

export const CheckField = component$<CheckProps>(({ label, checked, hint, take$ }) => (
  <div class="field">
    <label><input type="checkbox" checked={checked} onChange$={(_, input) => take$(input.checked)} /> {label}</label>
    {hint && <span class="faint">{hint}</span>}
  </div>
));

interface SelectProps {
  label: string;
  value: string;
  options: { value: string; title: string }[];
  take$: QRL<(value: string) => void>;
}

export const SelectField = component$<SelectProps>(({ label, value, options, take$ }) => (
  <label class="field">
    {label}
    <select value={value} onChange$={(_, select) => take$(select.value)}>
      {options.map((o) => <option key={o.value} value={o.value} selected={o.value === value}>{o.title}</option>)}
    </select>
  </label>
));
