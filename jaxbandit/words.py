"""Numbers in sentences for users."""


def counted(number: int, one: str, several: str) -> str:
    """Returns how many there are of something, with its name for one or for several.

    Example:
        >>> from jaxbandit.words import counted
        >>> counted(1, "entity", "entities"), counted(1_200, "entity", "entities")
        ('1 entity', '1,200 entities')
    """
    return f"{number:,} {one if number == 1 else several}"


__all__ = ["counted"]
