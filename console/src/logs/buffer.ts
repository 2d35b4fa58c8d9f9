import type { LogLine } from '~/gen/proto/event/v1/event_pb';
import { milliseconds } from '~/ui/time';

/** Line is a line of a script, with the agent that sent it. */
export interface Line {
  /** The number of the line on the page. */
  id: number;
  agent: string;
  line: LogLine;
}

/** How many lines a page keeps. */
export const mostLines = 5000;

/** Buffer keeps the newest lines. Earlier lines that arrive later are sorted in. */
export class Buffer {
  lines: Line[] = [];
  /** Lines that made room for newer ones. */
  dropped = 0;
  /** Lines that came so far. */
  added = 0;
  private known = new Set<string>();

  /** add puts new lines at the end, and skips lines that it has. */
  add(agent: string, lines: LogLine[]): void {
    for (const line of lines) {
      this.push(agent, line);
    }
    this.trim();
  }

  /** merge sorts earlier lines of all agents in by their times. */
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

/** keyOf is equal for a line that arrives twice: as a new line, and from the memory of an agent. */
const keyOf = (agent: string, l: LogLine): string => `${agent}\n${l.time?.seconds}.${l.time?.nanos}\n${l.tenant}/${l.name}\n${l.message}`;
