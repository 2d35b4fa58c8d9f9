/** Page is an entry of the navigation. */
interface Page {
  href: string;
  title: string;
  icon: string;
}

/** The icons are paths in a box of 16 by 16. */
export const pages: Page[] = [
  { href: '/', title: 'Scripts', icon: 'M3 2h7l3 3v9H3zM10 2v3h3M5 8l2 2-2 2M8 12h3' },
  { href: '/fleet/', title: 'Fleet', icon: 'M2 3h12v4H2zM2 9h12v4H2zM4 5h1M4 11h1' },
  { href: '/logs/', title: 'Logs', icon: 'M2 3h12M2 6h8M2 9h12M2 12h6' },
  { href: '/values/', title: 'Values', icon: 'M6 8a3 3 0 1 1-1-2M6 8h8v3M11 8v2' },
  { href: '/tenants/', title: 'Tenants', icon: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 14c0-3 3-4 6-4s6 1 6 4' },
  { href: '/access/', title: 'Access', icon: 'M8 1l6 2v5c0 4-3 6-6 7-3-1-6-3-6-7V3zM5 8l2 2 4-4' },
  { href: '/audit/', title: 'Audit', icon: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 5v3l2 2' },
];
