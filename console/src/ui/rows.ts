/** The heights in pixels of a row and of a line of text, as in the style sheet. */
export const rowHeight = 40;
export const lineHeight = 24;
