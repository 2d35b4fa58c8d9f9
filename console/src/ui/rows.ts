/** The heights of rows in pixels, as the style sheet has them: --row, and that of lines of text. */
export const rowHeight = 37.5;
export const lineHeight = 22.5;
