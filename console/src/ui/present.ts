/**
 * present returns the value of a signal as it is in this render. Without the call, the compiler has a prop such as shown.text follow the
 * signal by itself, and the page breaks in the moment when the signal has no value any more.
 */
export const present = <T>(value: T): T => value;
