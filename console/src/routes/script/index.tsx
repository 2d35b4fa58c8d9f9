import { component$ } from '@builder.io/qwik';
import { useLocation, type DocumentHead } from '@builder.io/qwik-city';
import { Header } from '~/script/header';
import { nameOf } from '~/script/name';
import { useStatus } from '~/script/status';

export default component$(() => {
  const { url } = useLocation();
  const name = nameOf(url);
  const { script, live } = useStatus(name);
  return <Header name={name} tab="" status={script.value} live={live.value} />;
});

export const head: DocumentHead = { title: 'Script' };
