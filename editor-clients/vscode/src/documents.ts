// Which documents the language server knows.

export const SCHEMES: readonly string[] = ["file", "untitled", "vscode-notebook-cell"];
