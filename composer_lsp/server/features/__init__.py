"""One module a feature of LSP; each translates and delegates to the session."""
