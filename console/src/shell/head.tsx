import { component$ } from '@builder.io/qwik';
import { useDocumentHead } from '@builder.io/qwik-city';

export const Head = component$(() => {
  const head = useDocumentHead();
  return (
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>{head.title ? `${head.title} · Scriptorium` : 'Scriptorium'}</title>
      <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
      <script src="/theme.js"></script>
    </head>
  );
});
