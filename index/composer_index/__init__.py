"""The workspace index: which files may be read, and, to come, what is in them.

Stands alone: it imports nothing of the other packages.
"""
