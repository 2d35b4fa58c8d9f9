import type { Entry } from './api';

const entries = (kind: Entry['kind'], doc: string, names: string): Entry[] => names.split(' ').map((name) => ({ name, kind, detail: '', doc, type: '' }));

/** words are the keywords of Lua. */
export const words: Entry[] = entries('word', '', 'and break do else elseif end false for function if in local nil not or repeat return then true until while');

/** library is the part of Lua's own library that scripts can use. */
export const library = {
  globals: [
    ...entries('function', 'Of Lua.', 'assert error getmetatable ipairs next pairs pcall rawequal rawget rawset require select setmetatable tonumber tostring type unpack xpcall'),
    ...entries('table', 'Of Lua.', 'string table math os'),
    ...entries('function', 'Answers a request. Gateways call it.', 'handle'),
    ...entries('function', 'Answers the response to a request.', 'on_response'),
  ],
  members: new Map<string, Entry[]>([
    ['string', entries('function', 'Of Lua.', 'byte char find format gmatch gsub len lower match rep reverse sub upper')],
    ['table', entries('function', 'Of Lua.', 'concat insert maxn remove sort')],
    ['math', [...entries('function', 'Of Lua.', 'abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp ldexp log log10 max min modf pow rad random randomseed sin sinh sqrt tan tanh'), ...entries('field', 'Of Lua.', 'huge pi')]],
    ['os', entries('function', 'Of Lua.', 'clock date difftime time')],
  ]),
};
