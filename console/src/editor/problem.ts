/** Problem is what the registry says of a draft. */
export interface Problem {
  severity: 'error' | 'warning';
  message: string;
  /** Such as settings.limits.timeout; empty for the source. */
  field: string;
  /** From 1; 0 if it is about no place in the text. */
  line: number;
  column: number;
}

/** Place is where an editor goes. Another object is another wish, also of the same place. */
export interface Place {
  line: number;
  column: number;
}
