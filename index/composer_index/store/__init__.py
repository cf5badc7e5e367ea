"""What the index knows, on disk: one Lance database a workspace root, in the user's cache folder.

`store.store` is the way in. It imports lancedb (more than a second of CPU time), so import it where
it is needed, in the worker, and not at a module's top; `store.records` and `store.errors` are light.
"""
