import { component$ } from '@builder.io/qwik';
import { QwikCityProvider, RouterOutlet } from '@builder.io/qwik-city';
import './styles/global.css';

export default component$(() => (
  <QwikCityProvider>
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>Scriptorium</title>
      <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
    </head>
    <body>
      <RouterOutlet />
    </body>
  </QwikCityProvider>
));
