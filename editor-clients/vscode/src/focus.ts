// When the window comes to the front; VS Code tells of other changes of its state by the same event.

export class FocusWatch {
  #isFocused: boolean;
  readonly #onFocus: () => void;

  constructor(isFocused: boolean, onFocus: () => void) {
    this.#isFocused = isFocused;
    this.#onFocus = onFocus;
  }

  update(isFocused: boolean): void {
    const isNew = isFocused && !this.#isFocused;
    this.#isFocused = isFocused;
    if (isNew) this.#onFocus();
  }
}
