"""The resolved spec as YAML, for ``harness show``."""

from __future__ import annotations

from typing import Any

import yaml

from harness.spec.study import Study
from harness.spec.text import resolve


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and quotes text that YAML 1.1 or 1.2 could take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None if isinstance(resolve(value), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)


def _tuple(dumper: yaml.SafeDumper, value: tuple[Any, ...]) -> yaml.SequenceNode:
    return dumper.represent_list(list(value))


class _Block(dict[str, Any]):
    """A mapping whose entries stand on lines of their own; what lies inside is as short as it goes."""


def _block(dumper: yaml.SafeDumper, value: _Block) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=False)


_Dumper.add_representer(_Block, _block)
_Dumper.add_representer(str, _text)
_Dumper.add_representer(tuple, _tuple)


def render(study: Study) -> str:
    """YAML that loads to the same study again: no includes, aliases, profiles or ``x-`` keys; defaults written out."""
    parts = []
    for key, value in study.document.items():
        section = key in ("methods", "evaluations", "claims", "skip")
        block = _Block({key: _Block(value) if isinstance(value, dict) and section else value})
        text = yaml.dump(block, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
        parts.append(f"\n{text}" if section else text)
    return "".join(parts)
