import { $, component$, useSignal, useVisibleTask$ } from '@builder.io/qwik';
import { registry } from '~/api/client';
import { useChangeQuery } from '~/shell/query';

const asked = 100;

/** GroupBy chooses the label to group agents by. It offers nothing to people without the right to see labels. */
export const GroupBy = component$(({ by }: { by: string }) => {
  const change = useChangeQuery();
  const labels = useSignal<string[]>([]);

  useVisibleTask$(async () => {
    try {
      const { agents } = await registry().findAgents({ limit: asked });
      labels.value = [...new Set(agents.flatMap((a) => Object.keys(a.labels)))].sort();
    } catch {
      // Without labels, there is one group.
    }
  });

  const choose = $((_: Event, select: HTMLSelectElement) => change({ by: select.value || undefined, group: undefined, from: undefined }));
  const options = [...new Set([...(by ? [by] : []), ...labels.value])].sort();
  return labels.value.length > 0 ? (
    <label class="inline">
      Group by{' '}
      <select onChange$={choose}>
        {options.map((l) => <option key={l} value={l} selected={l === by}>{l}</option>)}
      </select>
    </label>
  ) : null;
});
