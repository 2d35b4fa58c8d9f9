import type { LogLine } from '~/gen/proto/event/v1/event_pb';
import { milliseconds } from '~/ui/time';

/** Line is a line of a script with the agent that it is of. */
export interface Line {
  /** Counts the lines of the page. */
  id: number;
  agent: string;
  line: LogLine;
}

/** How many lines a page keeps. */
export const mostLines = 5000;

/** Buffer keeps the newest lines, in order of their time as far as that is known when they come. */
export class Buffer {
  lines: Line[] = [];
  /** Lines that made room for newer ones. */
  dropped = 0;
  /** Lines that came so far. */
  added = 0;
  private known = new Set<string>();

  /** add puts new lines at the end. Lines that are there are not added again. */
  add(agent: string, lines: LogLine[]): void {
    for (const line of lines) {
      this.push(agent, line);
    }
    this.trim();
  }

  /** merge adds lines of all agents that were logged before, where their times are. */
  merge(lines: { agent: string; line: LogLine }[]): void {
    lines.forEach(({ agent, line }) => this.push(agent, line));
    this.lines.sort((a, b) => (milliseconds(a.line.time) ?? 0) - (milliseconds(b.line.time) ?? 0) || a.id - b.id);
    this.trim();
  }

  private push(agent: string, line: LogLine): void {
    const key = keyOf(agent, line);
    if (!this.known.has(key)) {
      this.known.add(key);
      this.lines.push({ id: this.added++, agent, line });
    }
  }

  private trim(): void {
    const over = this.lines.length - mostLines;
    if (over > 0) {
      this.lines.slice(0, over).forEach(({ agent, line }) => this.known.delete(keyOf(agent, line)));
      this.lines = this.lines.slice(over);
      this.dropped += over;
    }
  }
}

/** keyOf is the same for a line that comes twice: from the memory of an agent, and as a new one. */
const keyOf = (agent: string, l: LogLine): string => `${agent}\n${l.time?.seconds}.${l.time?.nanos}\n${l.tenant}/${l.name}\n${l.message}`;
