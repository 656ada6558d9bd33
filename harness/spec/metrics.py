"""The metrics of an evaluation: those that the spec lists, or all that belong to it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.spec.adapter import Adapter
from harness.spec.component import Reader
from harness.spec.errors import suggestion
from harness.spec.study import Use
from harness.spec.text import Broken, Entry, Fields, Items, Scalar, Tree
from harness.spec.validate import BAD


def read_metrics(reader: Reader, evaluation: Adapter, entries: Mapping[str, Entry]) -> tuple[Use, ...]:
    """With their parameters; what is wrong is reported and left out."""
    own = {a.name: a for a in reader.registry.adapters.values() if a.role == "metric" and evaluation.name in a.of}
    if "metrics" not in entries:
        return _all(reader, evaluation, entries, own)
    tree = entries["metrics"].value
    if not isinstance(tree, Items) or not tree.items:
        reader.value(entries, "evaluation", "metrics")
        return ()
    uses: dict[str, Use] = {}
    for item in tree.items:
        use = _one(reader, evaluation, item, own)
        if use is None:
            continue
        short = reader.adapters[use.use].short
        if short in uses:
            reader.problems.add(item.place, f"the metric {short} stands twice", "remove one of them")
        uses[short] = use
    return tuple(uses.values())


def _all(
    reader: Reader, evaluation: Adapter, entries: Mapping[str, Entry], own: Mapping[str, Adapter]
) -> tuple[Use, ...]:
    uses = []
    for name in own:
        adapter = reader.named(name, entries["use"].value.place)
        use = reader.use(adapter, {"use": _named(entries["use"], name)}, "metrics") if adapter is not None else BAD
        if isinstance(use, Use):
            uses.append(use)
    if not own:
        message = f"no metric belongs to {evaluation.name}"
        reader.problems.add(entries["use"].value.place, message, "list metrics: [...]")
    return tuple(uses)


def _one(reader: Reader, evaluation: Adapter, item: Tree, own: Mapping[str, Adapter]) -> Use | None:
    if isinstance(item, Broken):
        return None
    if not isinstance(item, (Scalar, Fields)) or (isinstance(item, Scalar) and not isinstance(item.value, str)):
        reader.typed(item, {"type": "string"}, "metric")
        return None
    entries: Mapping[str, Entry] | None = {"use": Entry(item.place, item)}
    if isinstance(item, Fields):
        entries = reader.section(item, "component", "this metric", item.place)
    if entries is None or "use" not in entries:
        return None
    tree = entries["use"].value
    shorts = {adapter.short: name for name, adapter in own.items()}
    written = str(tree.value) if isinstance(tree, Scalar) else ""
    name = shorts.get(written, written)
    if "." not in name:
        message = f'{evaluation.name} has no metric "{written}"'
        reader.problems.add(tree.place, message, suggestion(written, shorts))
        return None
    adapter = reader.named(name, tree.place)
    if adapter is None:
        return None
    if adapter.role != "metric" or evaluation.name not in adapter.of:
        message = f"{adapter.name} is no metric of {evaluation.name}"
        reader.problems.add(tree.place, message, suggestion(adapter.short, shorts))
        return None
    use = reader.use(adapter, {**entries, "use": _named(entries["use"], name)}, "this metric")
    return use if isinstance(use, Use) else None


def _named(entry: Entry, name: str) -> Entry:
    return Entry(entry.place, Scalar(entry.value.place, name, name))
