// Scripts for Scriptorium in AssemblyScript: see README.md.

import { Decision } from "./decision";
import { fail } from "./host";
import { Request } from "./request";

export { Cookie, Decision } from "./decision";
export { Level, config, counterAdd, fail, kvGet, kvKeys, log, rateLimit } from "./host";
export { Json, Member, quote } from "./json";
export { Request } from "./request";

let decide: ((request: Request) => Decision | null) | null = null;
let answer: ((argument: string) => string) | null = null;

/** Has a function decide about requests. Without a decision (null), the request goes on as it is. */
export function onRequest(f: (request: Request) => Decision | null): void {
  decide = f;
}

/** Has a function answer calls with any argument: it gets and returns JSON. An empty result is no result. */
export function onCall(f: (argument: string) => string): void {
  answer = f;
}

/** What the agent calls. Export it from the module of the script. */
export function handle(address: usize, length: i32): u64 {
  let result = "";
  if (decide) {
    const decision = decide!(Request.at(address, length));
    if (decision) result = decision.toJSON();
  } else if (answer) {
    result = answer!(String.UTF8.decodeUnsafe(address, length));
  } else {
    fail("no handler: call onRequest");
  }
  if (result.length == 0) return 0;
  const text = String.UTF8.encode(result);
  return ((changetype<usize>(text) as u64) << 32) | (text.byteLength as u64);
}

/** What the agent calls. Export it from the module of the script. */
export function scriptorium_alloc(size: i32): usize {
  return heap.alloc(size);
}

/** What the compiler calls for an exception, which ends the call: see asconfig.json. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const text = message ? message : "aborted";
  fail(text + " (" + (file ? file : "") + ":" + line.toString() + ":" + column.toString() + ")");
}
