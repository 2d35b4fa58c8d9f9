import type { Version } from '~/gen/proto/script/v1/script_pb';

/** engineOf is the engine to publish a version with. The registry adds a word to the engine of a version with libraries, for old agents. */
export const engineOf = ({ engine, inputs }: Version): string => (inputs.length > 0 ? engine.replace(/\+libraries$/, '') : engine) || 'lua';
