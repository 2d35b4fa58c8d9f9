/** expecting is the condition of a write on what a page has read: that it still has the revision, or with 0, which is of nothing, that there is still none. */
export const expecting = (revision: bigint): bigint => revision || -1n;
