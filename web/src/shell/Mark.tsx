// The mark: a palmette, the form in which espaliers are trained on a wall.
export function Mark({ size }: { size: number }) {
  return (
    <svg class="mark" width={size} height={size} viewBox="0 0 64 64" fill="none" aria-hidden="true">
      <g class="wires"><path d="M2 16H62M2 30H62M2 44H62" /></g>
      <g class="wood">
        <path d="M32 61V10" /><path d="M32 50H16a8 8 0 0 1-8-8V14" /><path d="M32 50H48a8 8 0 0 0 8-8V14" />
        <path d="M32 40H24a4 4 0 0 1-4-4V14" /><path d="M32 40H40a4 4 0 0 0 4-4V14" />
      </g>
      <g class="fruit"><circle cx="8" cy="11" r="3.4" /><circle cx="20" cy="11" r="3.4" /><circle cx="44" cy="11" r="3.4" /><circle cx="56" cy="11" r="3.4" /><circle cx="32" cy="7" r="3.8" /></g>
    </svg>
  );
}
