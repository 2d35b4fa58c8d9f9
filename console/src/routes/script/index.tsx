import { component$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { useUrl } from '~/shell/url';
import { Header } from '~/script/header';
import { nameOf } from '~/script/name';
import { useStatus } from '~/script/status';

export default component$(() => {
  const url = useUrl();
  const { script, live } = useStatus(url);
  return <Header name={nameOf(url.value)} tab="" status={script.value} live={live.value} />;
});

export const head: DocumentHead = { title: 'Script' };
