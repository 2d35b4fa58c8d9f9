import { component$ } from '@builder.io/qwik';
import { useLocation } from '@builder.io/qwik-city';
import { Link } from './link';
import { pages } from './pages';

export const Nav = component$(() => {
  const { url } = useLocation();
  return (
    <nav class="rail" aria-label="Pages">
      {pages.map((p) => (
        <Link key={p.href} href={p.href} aria-current={isAt(url.pathname, p.href) ? 'page' : undefined}>
          <svg viewBox="0 0 16 16" aria-hidden="true"><path d={p.icon} /></svg>
          <span>{p.title}</span>
        </Link>
      ))}
    </nav>
  );
});

/** isAt counts the pages of a script as part of the list of scripts. */
const isAt = (path: string, href: string): boolean =>
  href === '/' ? path === '/' || path.startsWith('/script') : path.startsWith(href);
