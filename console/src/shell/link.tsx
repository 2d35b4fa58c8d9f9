import { $, Slot, component$, sync$ } from '@builder.io/qwik';
import { Link as CityLink, type LinkProps } from '@builder.io/qwik-city';
import { hrefWith, useChangeQuery, type Parameters } from './query';

/** Link goes to a page of the console. It fetches that page when somebody clicks it: nobody clicks most links of a list. */
export const Link = (props: LinkProps, key: string | null) => <CityLink key={key} {...props} prefetch={false} />;

/** QueryLink changes parameters of the page's own URL. */
export const QueryLink = component$<{ url: URL; change: Parameters }>(({ url, change }) => {
  const apply = useChangeQuery();
  return (
    <a
      href={hrefWith(url, change)}
      onClick$={[
        sync$((e: MouseEvent) => {
          if (!(e.metaKey || e.ctrlKey || e.shiftKey || e.altKey)) {
            e.preventDefault();
          }
        }),
        $((e: MouseEvent) => {
          if (e.defaultPrevented) {
            return apply(change);
          }
        }),
      ]}
    >
      <Slot />
    </a>
  );
});
