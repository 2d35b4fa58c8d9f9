import { component$, type QRL, type Signal } from '@builder.io/qwik';
import type { Draft } from '~/editor/draft';
import type { PublishRequest, PublishResponse } from '~/gen/proto/registry/v1/registry_pb';
import { Modal } from '~/ui/modal';

interface Props {
  open: Signal<boolean>;
  draft: Draft;
  onPublished$: QRL<(response: PublishResponse) => void>;
  /** Somebody else changed the script: request has both changes, and revision is the release that it was merged with. */
  onMerged$: QRL<(request: PublishRequest, revision: bigint) => void>;
}

/** PublishDialog publishes a draft. */
export const PublishDialog = component$<Props>(({ open }) => <Modal open={open} title="Publish" wide />);
