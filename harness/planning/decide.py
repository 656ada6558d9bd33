"""Nodes and finished records to a plan: run, re-score, reuse or stale, with the reason in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.planning.compile import Compiled
from harness.planning.cost import Cost, History
from harness.planning.node import Node, builds_in
from harness.planning.select import Patterns
from harness.results.gate import closed_gate
from harness.results.record import NO_SAMPLES, RunRecord, State
from harness.results.store import Shelf, Store, Stored
from harness.spec.study import Resources


class Action(StrEnum):
    """What the next ``run`` does with a node."""

    RUN = "run"
    STALE = "stale"  # run: what is there was made by other code, parameters or data
    RESCORE = "re-score"
    REUSE = "reuse"
    KEEP = "keep"  # ended in a way that only --retry or more resources would change
    SKIP = "skip"  # a gate is closed

    @property
    def works(self) -> bool:
        return self in (Action.RUN, Action.STALE, Action.RESCORE)


@dataclass(frozen=True)
class Planned:
    """One node and what happens to it.

    ``again``: it is run although a finished record is there. ``incomplete``: it is reused, but something in it
    failed or came to nothing, which the exit status tells. ``record``: what is reused. ``waits``: builds for whose
    sake alone a joint run is repeated.
    """

    node: Node
    action: Action
    reason: str
    cost: Cost = Cost()
    again: bool = False
    incomplete: bool = False
    record: RunRecord | None = None
    waits: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Not finished as the study wants it."""
        return self.action is not Action.REUSE or self.incomplete


@dataclass(frozen=True)
class Choices:
    """What the call adds to the spec: ``only`` and ``rerun`` are patterns, ``retry`` takes up timeouts and the like."""

    only: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    retry: bool = False


@dataclass(frozen=True)
class Plan:
    """What will happen, in order: every node after those that it requires."""

    compiled: Compiled
    store: Store
    planned: tuple[Planned, ...]
    unused_patterns: tuple[str, ...] = ()
    counts: Mapping[Action, int] = field(default_factory=dict)

    @property
    def work(self) -> tuple[Planned, ...]:
        return tuple(p for p in self.planned if p.action.works)


def decide(compiled: Compiled, store: Store, choices: Choices = Choices()) -> Plan:
    """The plan: a pure function of the study's nodes, the finished records and the caller's choices."""
    only, rerun = Patterns(choices.only), Patterns(choices.rerun)
    verdicts: dict[str, Planned] = {}
    addresses = _Addresses(store)
    history = History(store.runs, store.builds)
    builds = {k: n for k, n in compiled.nodes.items() if n.kind == "build"}
    upstream = Upstream(store, builds)
    for node in compiled.nodes.values():
        if node.kind == "observation" and (not choices.only or only.match(node)):
            forced = bool(choices.rerun) and rerun.match(node)
            verdicts[node.key] = _decide(node, store, addresses, history, choices, forced, upstream)
    needed = _needed_builds(builds, [v for v in verdicts.values() if v.action in (Action.RUN, Action.STALE)])
    rerun_builds = [n for n in builds.values() if choices.rerun and rerun.match(n)]
    for key in {**dict.fromkeys(needed), **{n.key: None for n in rerun_builds}}:
        forced = bool(choices.rerun) and rerun.match(builds[key])
        verdicts[key] = _decide(builds[key], store, addresses, history, choices, forced, upstream)
    planned = tuple(verdicts[key] for key in compiled.nodes if key in verdicts)
    counts = {action: sum(p.action is action for p in planned) for action in Action}
    return Plan(compiled, store, planned, tuple(sorted(only.unused | rerun.unused)), counts)


def _needed_builds(builds: Mapping[str, Node], work: Sequence[Planned]) -> list[str]:
    """Builds that the work reads, and what these read in turn; in order."""
    needed: set[str] = set()
    todo = [key for planned in work for key in planned.node.requires]
    while todo:
        key = todo.pop()
        if key not in needed:
            needed.add(key)
            todo.extend(builds[key].requires)
    return [key for key in builds if key in needed]


def _decide(
    node: Node,
    store: Store,
    addresses: _Addresses,
    history: History,
    choices: Choices,
    forced: bool,
    upstream: Upstream,
) -> Planned:
    directory = store.shelf(node.kind).find(node.key)
    stored = Stored(directory) if directory is not None else None
    record = stored.record if stored is not None else None
    shut = upstream(node.requires, gates_only=True)
    if shut is not None and not _joint(node):
        return Planned(node, Action.SKIP, shut[0], record=record)
    if forced:
        return Planned(node, Action.RUN, "asked for by --rerun", history.cost(node), again=True)
    if stored is None or record is None or record.state.retried or record.key != node.key:
        action, reason = _fresh(node, record, stored, addresses)
        return Planned(node, action, reason, history.cost(node))
    lost = _lost(node, record, stored)
    if lost is not None:
        return Planned(node, Action.RUN, f"{lost} is gone", history.cost(node), again=True)
    if record.state in (State.TIMEOUT, State.OUT_OF_MEMORY):
        action, reason, again = _limited(node, record, stored, choices)
        return Planned(node, action, reason, history.cost(node), again=again)
    action, reason, waits = _finished(node, record, stored, choices, upstream)
    bad = any(not e.state.done or e.upstream or e.reason == NO_SAMPLES for e in record.entries.values())
    return Planned(
        node,
        action,
        reason,
        history.cost(node) if action.works else Cost(),
        again=action is Action.RUN,
        incomplete=bad or shut is not None or record.reason == NO_SAMPLES,
        record=record,
        waits=waits,
    )


def _joint(node: Node) -> bool:
    """A joint run starts behind a closed gate, without the entry."""
    return node.kind == "observation" and node.document["shape"] != "single"


def _lost(node: Node, record: RunRecord, stored: Stored) -> str | None:
    """A file of a finished node that somebody removed."""
    if record.state is not State.OK:
        return None
    names = ["product", *record.files] if node.kind == "build" else list(record.files)
    return next((name for name in names if not (stored.directory / name).exists()), None)


def _fresh(node: Node, record: RunRecord | None, stored: Stored | None, addresses: _Addresses) -> tuple[Action, str]:
    """A node without a result of its own."""
    if record is not None and record.state in (State.FAILED, State.CANCELLED, State.LOST):
        return Action.RUN, f"{record.state} before: {record.reason or 'no reason given'}"
    if record is not None and record.state.retried:
        return Action.RUN, f"not finished: {record.state}"
    if stored is not None and stored.attempt:
        return Action.RUN, f"not finished: attempt {stored.attempt} left no record"
    changed = addresses.changes(node)
    if changed is not None:
        return Action.STALE, changed
    return Action.RUN, "new"


def _limited(node: Node, record: RunRecord, stored: Stored, choices: Choices) -> tuple[Action, str, bool]:
    """It ran into a limit: worth another try only if the limit is wider now, or for an entry's rivals."""
    document = stored.node or {}
    before = Resources(**document["resources"]) if "resources" in document else node.resources
    if choices.retry:
        return Action.RUN, f"{record.state} before; --retry", True
    timeout = record.state is State.TIMEOUT
    if node.resources.timeout > before.timeout if timeout else node.resources.memory > before.memory:
        return Action.RUN, f"{record.state} before; it is granted more now", True
    if _joint(node) and record.entries:  # the entry that ended it is known: the worker leaves it out
        return Action.RUN, f"{record.state} before: the other entries without the one that ended it", False
    return Action.KEEP, f"{record.state} before: {record.reason or ''}; raise its limit, or use --retry", True


def _finished(
    node: Node, record: RunRecord, stored: Stored, choices: Choices, upstream: Upstream
) -> tuple[Action, str, tuple[str, ...]]:
    """Action, reason, and the builds for whose sake alone a joint run is repeated."""
    none: tuple[str, ...] = ()
    if node.kind == "build":
        return Action.REUSE, "made before", none
    failed = [e for e in record.entries.values() if not e.state.done]
    if failed and choices.retry:
        return Action.RUN, f"{len(failed)} of {len(record.entries)} entries failed before; --retry", none
    waits = sorted(
        key
        for entry in node.document["entries"]
        if (e := record.entries.get(entry["id"])) is not None and e.upstream
        for key in builds_in(entry)
        if upstream([key], gates_only=True) is None
    )
    if waits:
        return Action.RUN, "an entry waited for a build", tuple(waits)
    if record.state is State.OK:
        reason = _unscored(node, stored)
        if reason is not None:
            return Action.RESCORE, reason, none
    if failed:
        more = "(--retry measures again)"
        return Action.REUSE, f"finished; {len(failed)} of {len(record.entries)} entries failed {more}", none
    shut = upstream(node.requires, gates_only=True)
    if shut is not None:
        return Action.REUSE, f"finished, but for {shut[0]}", none
    return Action.REUSE, "finished" if record.state is State.OK else f"skipped: {record.reason}", none


def _unscored(node: Node, stored: Stored) -> str | None:
    """Why scores are missing, in words."""
    missing = stored.unscored(node.document["metrics"])
    failed = [reason for _, reason in missing if reason is not None]
    if failed:
        return f"scoring failed before: {failed[0]}"
    return f"{', '.join(sorted({name for name, _ in missing}))} changed or new" if missing else None


class Upstream:
    """What stands in the way of nodes that read builds. Each build's record is read once."""

    def __init__(self, store: Store, builds: Mapping[str, Node]) -> None:
        self._store, self._builds = store, builds
        self._found: dict[tuple[str, bool], tuple[str, bool] | None] = {}

    def __call__(self, requires: Sequence[str], gates_only: bool = False) -> tuple[str, bool] | None:
        """Why what reads these builds cannot run, and whether a closed gate is why. None if it can, or may yet."""
        return next((why for key in requires if (why := self._why(key, gates_only)) is not None), None)

    def _why(self, key: str, gates_only: bool) -> tuple[str, bool] | None:
        if (key, gates_only) not in self._found:
            self._found[key, gates_only] = self._look(key, gates_only)
        return self._found[key, gates_only]

    def _look(self, key: str, gates_only: bool) -> tuple[str, bool] | None:
        node = self._builds.get(key)
        if node is None:
            return None
        if node.gate or not gates_only:
            directory = self._store.builds.find(key)
            record = Stored(directory).record if directory is not None else None
            if record is not None and record.state is State.OK:
                shut = closed_gate(node.gate, record.measured)
                if shut is not None:
                    return f"gate {node.name}: {shut}", True
            elif record is not None and not gates_only:
                return f"upstream {node.name}: {record.reason or record.state}", False
        return self(node.requires, gates_only)


class _Addresses:
    """Earlier records by address; read once, when a node is found to have no record of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str, str], Mapping[str, Any]] | None = None

    def changes(self, node: Node) -> str | None:
        """What differs from the record that stands at one of this node's addresses; None if none does."""
        if self._known is None:
            self._known = {}
            for kind in ("build", "observation"):
                for address in _finished_addresses(kind, self._store.shelf(kind)):
                    self._known[kind, address["study"], address["label"]] = address
        for address in node.document["addresses"]:
            before = self._known.get((node.kind, address["study"], address["label"]))
            if before is not None:
                return "; ".join(differences(before, address)) or "the harness's own records changed"
        return None


def _finished_addresses(kind: str, shelf: Shelf) -> Iterator[Mapping[str, Any]]:
    found = [s for s in shelf.records() if s.record is not None and s.record.state is State.OK]
    for stored in sorted(found, key=lambda s: s.record.started if s.record else ""):
        yield from (stored.node or {}).get("addresses", ())


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Which parts changed between two records of one address, in words."""
    for part, changed in (("sources", "changed"), ("settings", "parameters changed")):
        old, new = before.get(part, {}), after.get(part, {})
        for name in sorted({*old, *new}):
            if name not in old:
                yield f"{name} added"
            elif name not in new:
                yield f"{name} removed"
            elif old[name] != new[name]:
                yield f"{name} {changed}" if name != "machine" else f"another machine: {old[name]} before"
