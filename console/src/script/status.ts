import { useComputed$, useSignal, useVisibleTask$, type Signal } from '@builder.io/qwik';
import { registry } from '~/api/client';
import type { ScriptStatus } from '~/gen/proto/registry/v1/registry_pb';
import { connecting, follow, type Live } from '~/live/follow';
import { nameOf } from './name';

/** Followed is the status of one script. */
interface Followed {
  /** Undefined until the registry has answered, and for a script that does not exist. */
  script: Signal<ScriptStatus | undefined>;
  live: Signal<Live>;
}

/** useStatus follows the script in the URL: its changes, and how they reach the agents. */
export function useStatus(url: Signal<URL | undefined>): Followed {
  const script = useSignal<ScriptStatus>();
  const live = useSignal<Live>(connecting());
  // Computed, because other parameters of the URL change more often.
  const full = useComputed$(() => {
    const { tenant, name } = nameOf(url.value);
    return name && `${tenant}/${name}`;
  });

  // A hidden element has the task if a page begins with a component, and is never visible.
  useVisibleTask$(({ track, cleanup }) => {
    const [tenant = '', name] = track(() => full.value).split('/');
    script.value = undefined;
    if (!name) {
      return;
    }
    const abort = new AbortController();
    cleanup(() => abort.abort());
    void follow(
      abort.signal,
      live,
      (signal) => registry().watchStatus({ tenant, name }, { signal }),
      ({ status }) => {
        script.value = status?.scripts[0];
      },
    );
  }, { strategy: 'document-ready' });
  return { script, live };
}
