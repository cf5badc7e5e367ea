"""Where and what to change next, by what the user has just changed."""
