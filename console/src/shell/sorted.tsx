import { QueryLink } from './link';
import { sortOf } from './query';

interface Props {
  url: URL | undefined;
  /** The parameter of the URL that a first click sets. A second click turns the order. */
  by: string;
  title: string;
  number?: boolean;
  spare?: boolean;
}

/** Sorted is the head of a column that the registry can sort by. Lists begin with the order of their names. */
export const Sorted = ({ url, by, title, number, spare }: Props) => {
  const { column, descending } = sortOf(url);
  const own = by.replace(/^-/, '');
  const here = column === own;
  const next = !here ? by : descending ? own : `-${own}`;
  return (
    <th scope="col" class={{ number, spare }} aria-sort={here ? (descending ? 'descending' : 'ascending') : undefined}>
      {url ? <QueryLink url={url} change={{ sort: next === 'name' ? undefined : next }}>{title}</QueryLink> : title}
    </th>
  );
};
