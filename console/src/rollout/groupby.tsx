import { $, component$, useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { useNavigate } from '@builder.io/qwik-city';
import { registry } from '~/api/client';
import { hrefWith } from '~/shell/query';

const asked = 100;

/** GroupBy chooses the label to group agents by. It offers nothing to people without the right to see labels. */
export const GroupBy = component$(({ url, by }: { url: Signal<URL | undefined>; by: string }) => {
  const navigate = useNavigate();
  const labels = useSignal<string[]>([]);

  useVisibleTask$(async () => {
    try {
      const { agents } = await registry().findAgents({ limit: asked });
      labels.value = [...new Set(agents.flatMap((a) => Object.keys(a.labels)))].sort();
    } catch {
      // Without labels, there is one group.
    }
  });

  const choose = $((_: Event, select: HTMLSelectElement) =>
    navigate(hrefWith(url.value!, { by: select.value || undefined, group: undefined, from: undefined }), { replaceState: true, scroll: false }),
  );
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
