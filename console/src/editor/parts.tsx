import { component$ } from '@builder.io/qwik';
import { RolloutForm } from '~/manifest/rollout';
import { SettingsForm } from '~/manifest/settings';
import { TestsForm } from '~/manifest/tests';
import { YamlView } from '~/manifest/yaml';
import { useBench, type View } from './bench';
import { Problems } from './problems';
import { SourceView } from './source';
import { Tabs } from './tabs';

const views: { id: View; title: string }[] = [
  { id: 'source', title: 'Source' },
  { id: 'settings', title: 'Settings' },
  { id: 'tests', title: 'Tests' },
  { id: 'rollout', title: 'Rollout plan' },
  { id: 'yaml', title: 'YAML' },
];

/** Parts are the views of the draft in tabs. Forms are in the page only while their tab is open. */
export const Parts = component$(() => {
  const bench = useBench();
  const panel = (id: View) => ({ id: `panel-${id}`, role: 'tabpanel', 'aria-labelledby': `tab-${id}`, hidden: bench.view.value !== id }) as const;
  return (
    <div>
      <Tabs label="Parts of the script" tabs={views} at={bench.view} />
      <div {...panel('source')}><SourceView /></div>
      <div {...panel('settings')}>{bench.view.value === 'settings' && <SettingsForm />}</div>
      <div {...panel('tests')}>{bench.view.value === 'tests' && <TestsForm />}</div>
      <div {...panel('rollout')}>{bench.view.value === 'rollout' && <RolloutForm />}</div>
      <div {...panel('yaml')}>{bench.view.value === 'yaml' && <YamlView />}</div>
      <Problems />
    </div>
  );
});
