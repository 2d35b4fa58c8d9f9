import { Link as CityLink, type LinkProps } from '@builder.io/qwik-city';

/** Link goes to a page of the console. It fetches that page when somebody clicks it: nobody clicks most links of a list. */
export const Link = (props: LinkProps, key: string | null) => <CityLink key={key} {...props} prefetch={false} />;
