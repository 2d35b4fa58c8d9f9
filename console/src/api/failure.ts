import { Code, ConnectError } from '@connectrpc/connect';
import { ErrorSchema } from '~/gen/proto/script/v1/script_pb';

/** Failure is an error of the registry, or of the connection to it. */
export interface Failure {
  /** Such as NOTFOUND or CONFLICT; empty if the request did not reach the registry. */
  kind: string;
  /** The field with the fault, if there is one. */
  field: string;
  message: string;
  /** The place in the source, from 1; 0 if the error has none. */
  line: number;
  column: number;
  signedOut: boolean;
  /** The caller ended the request. */
  canceled: boolean;
}

export function failureOf(error: unknown): Failure {
  const cause = ConnectError.from(error);
  const [detail] = cause.findDetails(ErrorSchema);
  return {
    kind: detail?.kind ?? '',
    field: detail?.field ?? '',
    message: detail?.message || sentence(cause),
    line: detail?.line ?? 0,
    column: detail?.column ?? 0,
    signedOut: cause.code === Code.Unauthenticated,
    canceled: cause.code === Code.Canceled || (error instanceof DOMException && error.name === 'AbortError'),
  };
}

const unsettled = new Set(['', 'UNAVAILABLE', 'OVERLOADED', 'TIMEOUT', 'INTERNAL']);

/** mayHaveHappened says that a write may have reached the registry's store, though its answer did not say so: etcd can fail after it has it, the registry can lack room for the answer, and a session can end meanwhile. */
export const mayHaveHappened = (f: Failure): boolean => f.signedOut || unsettled.has(f.kind);

/** sentence explains a console that does not answer: browsers say only "Failed to fetch". */
function sentence(cause: ConnectError): string {
  if (cause.code === Code.Unknown && /fetch|network|load failed/i.test(cause.rawMessage)) {
    return 'The console does not answer. Check that it runs and that you are connected to its network.';
  }
  return cause.rawMessage;
}

/** placeOf begins a message with its place in the source, if it has one. */
export const placeOf = ({ line, column }: { line: number; column: number }): string =>
  line > 0 ? `Line ${line}${column > 0 ? `, column ${column}` : ''}: ` : '';

/** text is one line for a person. */
export const text = ({ field, message }: { field: string; message: string }): string => (field && !message.startsWith(field) ? `${field}: ${message}` : message);
