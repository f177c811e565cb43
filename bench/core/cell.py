"""A cell: one point of a study's grid = one record. A study subclasses `Cell` with its own axes."""

import re
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, Self

from bench.core.errors import UserError

# What an axis may say. Nothing that a shell, a path or a format string would read as more than text.
WORD = r"[A-Za-z0-9][A-Za-z0-9.+=_-]*"


@dataclass(frozen=True, order=True)
class Cell:
    """Axes are fields of type str or int; PATTERN is the path they make. Cells sort by their axes in order."""

    PATTERN: ClassVar[str]  # such as "{dataset}/{net}/width-{width}/seed-{seed}"; it ends in seed-{seed}

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str) and not re.fullmatch(WORD, value):
                raise UserError(
                    f"{field.name}: found {value!r}; allowed: letters, digits and . + = _ -, a letter or digit first"
                )

    def __str__(self) -> str:
        return self.PATTERN.format(**asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The cell whose path this is."""
        shape = re.sub(r"\\{(\w+)\\}", lambda axis: f"(?P<{axis[1]}>[^/]+)", re.escape(cls.PATTERN))
        found = re.fullmatch(shape, text)
        if found:
            values = found.groupdict()
            numbers = {field.name for field in fields(cls) if field.type is int}
            if all(values[name].isascii() and values[name].isdecimal() for name in numbers):
                cell = cls(**{name: int(value) if name in numbers else value for name, value in values.items()})
                if str(cell) == text:  # one spelling: no seed-007
                    return cell
        raise UserError(f"cell: found {text!r}; allowed: {cls.PATTERN}, as `python -m bench status --cells` prints it")
