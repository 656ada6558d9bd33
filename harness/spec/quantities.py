"""Times and memory sizes: every way of writing them has one meaning, or is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_SECONDS: Mapping[str, int] = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_BYTES: Mapping[str, int] = {
    "B": 1,
    **{f"{p}B": 1000**i for i, p in enumerate("kMGT", start=1)},
    **{f"{p}iB": 1024**i for i, p in enumerate("KMGT", start=1)},
}

DURATION_HELP = 'write seconds (90), "90s", "10m", "1h30m", "2d", 10:00:00 (hours:minutes:seconds) or 1-00:00:00 (days)'
MEMORY_HELP = 'write bytes, or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB, as in "2GiB"'


class QuantityError(ValueError):
    """``message`` says what was found, ``hint`` what to write."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.hint = hint


def parse_duration(value: int | float | str) -> float:
    """Seconds. Numbers are seconds, quoted or not; text is "90s", "10m", "1h30m", "2d" (units d, h, m, s, each once,
    the larger first), ``H:MM:SS`` or ``D-HH:MM:SS``. Raises QuantityError, also for "1:30", which has two meanings.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise QuantityError(f"{value!r} is no time", DURATION_HELP)
    seconds = float(value) if not isinstance(value, str) else _duration(value.strip())
    if not math.isfinite(seconds) or seconds < 0:
        raise QuantityError(f"{value} is no time", DURATION_HELP)
    return seconds


def _duration(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    clock = _CLOCK.fullmatch(text)
    if clock:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        if minutes > 59 or seconds > 59 or (clock[1] is not None and hours > 23):
            raise QuantityError(f"{text} is no time: minutes and seconds end at 59", DURATION_HELP)
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    if re.fullmatch(r"\d+:\d+", text):
        one, other = text.split(":")
        hint = f'write "{int(one)}h{int(other)}m" or "{int(one)}m{int(other)}s"'
        raise QuantityError(f"{text} may be hours and minutes, or minutes and seconds", hint)
    parts = _PART.findall(text)
    units = [unit for _, unit in parts]
    if not parts or _PART.sub("", text) or any(unit not in _SECONDS for unit in units):
        raise QuantityError(f'"{text}" is no time', DURATION_HELP)
    if units != [unit for unit in _SECONDS if unit in units]:
        raise QuantityError(f'"{text}" is no time: each unit once, the larger first', DURATION_HELP)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def parse_memory(value: int | float | str) -> int:
    """Bytes. Numbers are bytes; text is a number with B, kB, MB, GB, TB (1000) or KiB, MiB, GiB, TiB (1024).

    Raises QuantityError, also for "2G", which has two meanings.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise QuantityError(f"{value!r} is no memory size", MEMORY_HELP)
    if not isinstance(value, str):
        if value < 0 or not math.isfinite(value) or value != int(value):
            raise QuantityError(f"{value} is no memory size", MEMORY_HELP)
        return int(value)
    size = _SIZE.fullmatch(value.strip())
    if not size:
        raise QuantityError(f'"{value}" is no memory size', MEMORY_HELP)
    number, unit = size[1], size[2] or "B"
    if unit == "KB":
        unit = "kB"
    if unit not in _BYTES:
        prefix = unit[0].upper()
        if prefix in "KMGT" and unit.lower() in (prefix.lower(), f"{prefix.lower()}b", f"{prefix.lower()}ib"):
            decimal = "k" if prefix == "K" else prefix
            raise QuantityError(f'"{value}" is not clear', f'write "{number}{prefix}iB" or "{number}{decimal}B"')
        raise QuantityError(f'"{value}" is no memory size', MEMORY_HELP)
    return round(float(number) * _BYTES[unit]) if "." in number else int(number) * _BYTES[unit]


def show_duration(seconds: float) -> str | float:
    """The shortest text that :func:`parse_duration` reads back exactly, with one unit; else the number."""
    for unit, size in _SECONDS.items():
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return seconds


def show_memory(size: int) -> str | int:
    """ "2GiB", or the number of bytes where no binary unit divides it."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return size
