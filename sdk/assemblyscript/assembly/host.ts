// What the agent does for scripts. If it cannot do what a function asks, for example because a key is not
// valid, the call ends with an error and the function does not return.

import { Json } from "./json";

@external("scriptorium", "log")
declare function importLog(level: i32, text: usize, length: i32): void;
@external("scriptorium", "fail")
declare function importFail(text: usize, length: i32): void;
@external("scriptorium", "config")
declare function importConfig(buffer: usize, capacity: i32): i32;
@external("scriptorium", "kv_get")
declare function importKVGet(key: usize, length: i32, buffer: usize, capacity: i32): i32;
@external("scriptorium", "kv_keys")
declare function importKVKeys(prefix: usize, prefixLength: i32, after: usize, afterLength: i32, limit: i32, buffer: usize, capacity: i32): i32;
@external("scriptorium", "counter_add")
declare function importCounterAdd(name: usize, length: i32, n: f64): f64;
@external("scriptorium", "ratelimit_take")
declare function importRateLimit(bucket: usize, length: i32, n: f64, rate: f64, burst: f64): f64;

/** Levels of log lines. */
export enum Level {
  Info,
  Warn,
  Error,
}

/** Logs a line. */
export function log(message: string, level: Level = Level.Info): void {
  const text = String.UTF8.encode(message);
  importLog(level, changetype<usize>(text), text.byteLength);
}

/** Ends the call with an error of the kind SCRIPT. */
export function fail(message: string): void {
  const text = String.UTF8.encode(message);
  importFail(changetype<usize>(text), text.byteLength);
  unreachable(); // the agent has ended the call
}

/** The script's config, an object: spec.config of its manifest. */
export function config(): Json {
  let length = 1024;
  while (true) {
    const capacity = length;
    const buffer = heap.alloc(capacity);
    length = importConfig(buffer, capacity);
    if (length <= capacity) return Json.trusted(buffer, length);
  }
}

/** The content of a value of the tenant, null if there is none. */
export function kvGet(key: string): string | null {
  const k = String.UTF8.encode(key);
  let length = 1024;
  while (true) {
    const capacity = length;
    const buffer = heap.alloc(capacity);
    length = importKVGet(changetype<usize>(k), k.byteLength, buffer, capacity);
    if (length < 0) return null;
    if (length <= capacity) return String.UTF8.decodeUnsafe(buffer, length);
  }
}

/** At most limit keys of the tenant's values in their order: those that begin with prefix, and come after the key after. */
export function kvKeys(prefix: string = "", after: string = "", limit: i32 = 1000): string[] {
  const p = String.UTF8.encode(prefix);
  const a = String.UTF8.encode(after);
  let length = 1024;
  while (true) {
    const capacity = length;
    const buffer = heap.alloc(capacity);
    length = importKVKeys(changetype<usize>(p), p.byteLength, changetype<usize>(a), a.byteLength, limit, buffer, capacity);
    if (length <= capacity) return Json.trusted(buffer, length).texts();
  }
}

/** Adds n to a counter of the tenant on this agent, and returns what the counter is then. */
export function counterAdd(name: string, n: f64 = 1): f64 {
  const text = String.UTF8.encode(name);
  return importCounterAdd(changetype<usize>(text), text.byteLength, n);
}

/**
 * Takes n tokens from a bucket of the tenant on this agent. The bucket holds up to burst tokens, and gets rate
 * tokens a second. If there are too few, it takes none and returns after how many seconds there are enough.
 * 0 says that it took them.
 */
export function rateLimit(bucket: string, n: f64, rate: f64, burst: f64): f64 {
  const text = String.UTF8.encode(bucket);
  return importRateLimit(changetype<usize>(text), text.byteLength, n, rate, burst);
}
