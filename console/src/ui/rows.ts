/** The heights of rows in pixels, as the style sheet has them: --row, and that of lines of text. */
export const rowHeight = 40;
export const lineHeight = 24;
