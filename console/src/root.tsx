import { component$ } from '@builder.io/qwik';
import { QwikCityProvider, RouterOutlet } from '@builder.io/qwik-city';
import { Head } from './shell/head';
import './styles/global.css';

export default component$(() => (
  // A transition would swallow clicks while it runs.
  <QwikCityProvider viewTransition={false}>
    <Head />
    <body>
      <RouterOutlet />
    </body>
  </QwikCityProvider>
));
