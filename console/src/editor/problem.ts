/** Problem is an error or a warning of the registry about a draft. */
export interface Problem {
  severity: 'error' | 'warning';
  message: string;
  /** Such as settings.limits.timeout; empty for the source. */
  field: string;
  /** From 1; 0 if it is about no place in the text. */
  line: number;
  column: number;
}

/** Place is where an editor moves its cursor. A new object moves it again, even to the same place. */
export interface Place {
  line: number;
  column: number;
}
