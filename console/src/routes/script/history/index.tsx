import { component$ } from '@builder.io/qwik';
import { type DocumentHead } from '@builder.io/qwik-city';
import { Header, Unnamed } from '~/script/header';
import { nameOf } from '~/script/name';
import { ownerText } from '~/release/owner';
import { useRecord } from '~/script/record';
import { useStatus } from '~/script/status';
import { useUrl } from '~/shell/url';
import { present } from '~/ui/present';
import { Problem } from '~/ui/problem';
import { Time } from '~/ui/time';
import { Changes } from './changes';
import { Compared } from './compared';
import { Versions } from './versions';

export default component$(() => {
  const url = useUrl();
  const { script, live } = useStatus(url);
  const { record, failure } = useRecord(url, script, live);
  const name = nameOf(url.value);
  const found = present(record.value);
  const release = found?.release;
  const hold = release?.hold;
  return (
    <>
      <Header name={name} tab="history/" status={script.value} live={live.value} />
      {url.value && !name.name && <Unnamed />}
      <Problem failure={failure.value} />
      {release?.owner && <p class="notice">{ownerText(release.owner)} You can still roll back, hold and release a hold here.</p>}
      {hold && (
        <p class="notice warn">
          {hold.author} holds the script at version {String(release.active?.number)} since <Time at={hold.since} />{hold.note && `: “${hold.note}”`}. What is published does not run
          until somebody releases the hold.
        </p>
      )}
      {found && !release && <p class="notice warn">The script is deleted. Its history is still here. Publish a script with this name to start again.</p>}
      {found ? (
        <>
          {release && <Versions name={name} release={release} history={found.history} url={url} />}
          {release && release.retained.length > 1 && <Compared name={name} release={release} url={url} />}
          <Changes history={found.history} />
        </>
      ) : (
        !failure.value && <p class="empty" role="status">Loading the history…</p>
      )}
    </>
  );
});

export const head: DocumentHead = { title: 'History' };
