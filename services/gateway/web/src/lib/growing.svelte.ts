/** How many lines are drawn at first, and in each further frame. */
const atFirst = 60;
const perFrame = 40;

/** Growing counts the lines of a long text that are drawn. It grows frame by frame, so that no frame takes long. */
export class Growing {
  count = $state(atFirst);

  constructor(total: () => number) {
    $effect(() => {
      if (this.count >= total()) return;
      const frame = requestAnimationFrame(() => (this.count += perFrame));
      return () => cancelAnimationFrame(frame);
    });
  }
}
