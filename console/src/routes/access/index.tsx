import { component$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { Me } from '~/access/me';
import { Policy } from '~/access/policy';
import { useUrl } from '~/shell/url';

export default component$(() => {
  const url = useUrl();
  return (
    <>
      <Me />
      <Policy url={url} />
    </>
  );
});

export const head: DocumentHead = { title: 'Access' };
