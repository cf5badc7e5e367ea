"""Real files typed by a seeded rhythm: what ghost text saves its user, beside peers."""
