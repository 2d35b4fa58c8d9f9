/** Spacer stands for the rows of a table that are not in the page. */
export const Spacer = ({ rows, height, columns }: { rows: number; height: number; columns: number }) =>
  rows > 0 ? (
    <tr aria-hidden="true" class="spacer">
      <td colSpan={columns} style={{ height: `${rows * height}px` }}></td>
    </tr>
  ) : null;
