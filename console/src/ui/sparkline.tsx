/** Sparkline draws the last points of a series. It is hidden from screen readers: the text beside it has the figures. */
export const Sparkline = ({ points, width = 90, height = 22 }: { points: number[]; width?: number; height?: number }) => {
  const most = Math.max(...points, 1e-9);
  const step = width / Math.max(points.length - 1, 1);
  const line = points.map((p, i) => `${(i * step).toFixed(1)},${(height - 1 - (p / most) * (height - 2)).toFixed(1)}`).join(' ');
  return (
    <svg class="sparkline" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <polyline points={line} />
    </svg>
  );
};
