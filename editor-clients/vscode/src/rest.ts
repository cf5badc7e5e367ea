// When the cursor has stayed where it is for a while.

const REST_MS = 500;

export class RestWatch {
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #onRest: () => void;

  constructor(onRest: () => void) {
    this.#onRest = onRest;
  }

  moved(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onRest, REST_MS);
  }

  dispose(): void {
    clearTimeout(this.#timer);
  }
}
