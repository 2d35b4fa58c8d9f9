import { component$, type Signal } from '@builder.io/qwik';
import { Link } from '@builder.io/qwik-city';
import { ScriptOrder } from '~/gen/proto/registry/v1/registry_pb';
import { Spacer } from '~/ui/spacer';
import type { Window } from '~/ui/window';
import { filterOf, withParameter, type Filter } from './filter';
import type { Health } from './health';
import { Row } from './row';
import type { Rows } from './rows';

const columns = 9;

interface Props {
  url: Signal<URL | undefined>;
  rows: Rows;
  health: Map<string, Health>;
  window: Window;
}

/** Table has the rows in the window alone, however long the list is. */
export const Table = component$<Props>(({ url, rows, health, window }) => {
  const filter = filterOf(url.value);
  const total = rows.total ?? 0;
  const sorted = (by: string, order: ScriptOrder) => ({ url: url.value, filter, by, order });
  return (
    <div class="viewport" tabIndex={0} role="region" aria-label="Scripts" ref={window.viewport} onScroll$={window.onScroll$}>
      <table class="scripts" aria-rowcount={total + 1}>
        <thead>
          <tr>
            <Sortable title="Script" {...sorted('name', ScriptOrder.UNSPECIFIED)} />
            <th scope="col" class="spare">Trigger</th>
            <th scope="col" class="number">Version</th>
            <th scope="col">State</th>
            <th scope="col" class="calls">Calls</th>
            <th scope="col" class="number spare">Errors</th>
            <th scope="col" class="number spare">p99</th>
            <Sortable title="Agents" number {...sorted('-failing', ScriptOrder.FAILING)} />
            <Sortable title="Changed" spare {...sorted('-changed', ScriptOrder.CHANGED)} />
          </tr>
        </thead>
        <tbody>
          <Spacer rows={rows.first} height={window.rowHeight} columns={columns} />
          {rows.scripts.map((s, i) => Row({ script: s, health: health.get(`${s.release?.tenant}/${s.release?.name}`), index: rows.first + i }))}
          <Spacer rows={total - rows.first - rows.scripts.length} height={window.rowHeight} columns={columns} />
        </tbody>
      </table>
    </div>
  );
});

interface SortableProps {
  title: string;
  url: URL | undefined;
  filter: Filter;
  /** The parameter of the URL that a first click sets. */
  by: string;
  order: ScriptOrder;
  number?: boolean;
  spare?: boolean;
}

/** Sortable is the head of a column that the registry can sort by. A second click turns the order. */
const Sortable = ({ title, url, filter, by, order, number, spare }: SortableProps) => {
  const is = filter.order === order;
  const next = is ? (filter.descending ? by.replace(/^-/, '') : `-${by.replace(/^-/, '')}`) : by;
  return (
    <th scope="col" class={{ number, spare }} aria-sort={is ? (filter.descending ? 'descending' : 'ascending') : undefined}>
      <Link href={withParameter(url, 'sort', next === 'name' ? '' : next)} replaceState scroll={false} prefetch={false}>{title}</Link>
    </th>
  );
};
