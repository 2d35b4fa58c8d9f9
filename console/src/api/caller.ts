import { registry } from './client';

/** caller is the person's name in the registry. Changes have it as their author. Another tab may have signed in somebody else, so it is not kept. */
export const caller = async (): Promise<string> => (await registry().check({})).caller;
