import { plainLines } from '~/ui/plain';
import { milliseconds } from '~/ui/time';
import type { Line } from './buffer';

/** textOf is the lines as text, one under the other, with the times in UTC. */
export const textOf = (lines: Line[]): string => lines.map((l) => `${oneLine(l)}\n`).join('');

function oneLine({ agent, line }: Line): string {
  const time = new Date(milliseconds(line.time) ?? 0).toISOString();
  const trace = line.traceId && ` trace=${line.traceId}`;
  return plainLines(`${time} ${line.level.padEnd(5)} ${agent} ${line.tenant}/${line.name}@${line.version}${trace} ${line.message.replaceAll('\n', '\n    ')}`);
}
