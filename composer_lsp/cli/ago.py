"""How long ago something was, in words."""

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"))


def ago(seconds: float) -> str:
    """As in "3 hours ago"; what lies in the future is "just now"."""
    for size, name in _UNITS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"
