/** expecting is the condition of a write: the object still has the revision that the page read. 0 means that there was no object, so there must be none. */
export const expecting = (revision: bigint): bigint => revision || -1n;
