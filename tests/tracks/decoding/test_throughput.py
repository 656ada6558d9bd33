"""Tensor parallelism run truly, and the cost model for devices that are not at hand."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from harness.contract import NotApplicable, Task
from harness.tracks.decoding import sharded
from harness.tracks.decoding.amounts import amounts, held, layer
from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.decoder import count_parameters
from harness.tracks.decoding.devices import device_of
from harness.tracks.decoding.metrics.modelled_tokens_per_second import ModelledTokensPerSecond
from harness.tracks.decoding.modelled_throughput import ModelledThroughput
from harness.tracks.decoding.protocol import Shape
from harness.tracks.decoding.ranks import RankError, RankGroup
from harness.tracks.decoding.sharded import Job
from harness.tracks.decoding.throughput import Throughput
from methods.decoding.gla import GLA
from methods.decoding.gqa import GQA
from methods.decoding.gta import GTA
from methods.decoding.mfa import MFA
from methods.decoding.mha import MHA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.mqa import MQA
from methods.decoding.no_attention import NoAttention
from methods.decoding.tpa import TPA

pytestmark = pytest.mark.track_decoding

SHAPE = Shape(model=48, heads=8, head_dim=8)
METHODS: dict[str, Any] = {
    "mla": MLA(),
    "gla-2": GLA(),
    "mlra-4": MLRA(),
    "mlra-2": MLRA(branches=2),
    "gqa": GQA(kv_heads=4),
    "gta": GTA(),
    "mfa": MFA(),
    "tpa": TPA(),
}

MINE = """
from methods.decoding.mlra import MLRA
from harness.tracks.decoding.devices import device_of
from harness.tracks.decoding.devices.latent import LatentDevice
from harness.tracks.decoding.latent import LatentAttention


class Device(LatentDevice):
    def __init__(self, module, share):
        super().__init__(module, share)
        self.number = share.rank


class SilentDevice(Device):
    def step(self, x, cache):
        out = super().step(x, cache)
        return 0 * out if self.number else out


class BreakingDevice(Device):
    def step(self, x, cache):
        return 1 / 0 if self.number else super().step(x, cache)


class SilentModule(LatentAttention):
    pass


class BreakingModule(LatentAttention):
    pass


device_of.register(SilentModule, SilentDevice)
device_of.register(BreakingModule, BreakingDevice)


class Silent(MLRA):
    def module(self, shape):
        return SilentModule(shape, self.layout(shape), 16)


class Breaking(MLRA):
    def module(self, shape):
        return BreakingModule(shape, self.layout(shape), 16)
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Methods straight from a file."""
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(MINE)
    spec = importlib.util.spec_from_file_location("harness_file_mine", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankGroup]:
    group = RankGroup(4, 1, tmp_path_factory.mktemp("four"))
    yield group
    group.close()


@pytest.fixture
def context(make_context: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two CPUs and one folder for all tests, so that they share their ranks while these are held."""
    return replace(make_context(cpus=2), directory=tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module", autouse=True)
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Task]]:
    """Tasks that are kept to the end of the module, and their ranks with them."""
    kept: list[Task] = []
    yield kept
    kept.clear()


def job(method: Any, replicas: int, tensor_parallel: int, **options: Any) -> Job:
    given = {"batch": 4, "context": 40, "dtype": "float32", "weights_seed": 1, "cache_seed": 2, "inputs_seed": 3}
    return Job(method=method, shape=SHAPE, replicas=replicas, tensor_parallel=tensor_parallel, **given | options)


@pytest.mark.parametrize("name", sorted(METHODS))
@pytest.mark.parametrize(("replicas", "tensor_parallel"), [(4, 1), (2, 2), (1, 4)])
def test_ranks_together_are_the_undivided_layer(
    name: str, replicas: int, tensor_parallel: int, four: RankGroup
) -> None:
    errors = four.ask(sharded.check, job(METHODS[name], replicas, tensor_parallel))
    assert 0 <= errors[0] < 1e-5
    assert errors[1:] == [0, 0, 0]


def test_in_half_precision(four: RankGroup) -> None:
    for function in (sharded.check, sharded.check_all_reduce):
        assert max(four.ask(function, job(MLRA(), 1, 4, dtype="bfloat16"))) < 5e-2


def test_a_rank_left_out_shows(four: RankGroup, mine: Any) -> None:
    assert four.ask(sharded.check, job(mine.Silent(), 4, 1))[0] < 1e-5
    assert four.ask(sharded.check, job(mine.Silent(), 2, 2))[0] > 0.1


def timed(method: Any, run: Any, kept: list[Task], **options: Any) -> Task:
    given = {"devices": 2, "tensor_parallel": 2, "batch": 2, "context": 300, "heads": 4, "head_dim": 16}
    task = Throughput(**given | options).prepare(method, run)
    kept.append(task)
    return task


def used(task: Task) -> tuple[list[float], float | None]:
    """Three durations and the check, as the engine gets them."""
    assert task.enter is not None
    assert task.leave is not None
    task.enter()
    try:
        check = None if task.check is None else task.check()
        return [float(task.call()) for _ in range(3)], check  # type: ignore[arg-type]
    finally:
        task.leave()


@pytest.mark.parametrize("part", ["step", "shard", "all_reduce"])
def test_every_part_has_its_time(part: Any, context: Any, ranks: list[Task]) -> None:
    task = timed(MLRA(), context, ranks, part=part)
    for _ in range(2):  # rounds
        seconds, check = used(task)
        assert all(0 < s < 5 for s in seconds)
        assert (check is None) == (part == "shard")
        assert check is None or check < 1e-5


def test_the_cache_stays_as_long_as_it_was(context: Any, ranks: list[Task]) -> None:
    task = timed(GQA(kv_heads=2), context, ranks, context=5)
    assert len(used(task)[0]) == 3  # the cache has room for one token more: a second would not fit


def test_a_wrong_sum_and_a_rank_that_raises_end_the_entry_alone(context: Any, mine: Any, ranks: list[Task]) -> None:
    with pytest.raises(ArithmeticError, match="2 ranks are off by"):
        used(timed(mine.Silent(), context, ranks))
    whole = timed(MLA(), context, ranks)
    with pytest.raises(RankError, match=r"rank 1 of 2: ZeroDivisionError: division by zero \(mine.py:\d+\)"):
        used(timed(mine.Breaking(), context, ranks))
    assert used(whole)[1] is not None  # it had the same ranks, and gets new ones


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"devices": 2, "tensor_parallel": 4}, "2 devices cannot form"),
        ({"tensor_parallel": 1, "batch": 3}, "3 sequences cannot be spread"),
        ({"devices": 4, "tensor_parallel": 4}, "4 ranks at once need a CPU each, and the run has 2"),
        ({"tensor_parallel": 1, "part": "all_reduce"}, "nothing to reduce"),
    ],
)
def test_what_does_not_fit_is_not_applicable(options: Any, reason: str, context: Any, ranks: list[Task]) -> None:
    with pytest.raises(NotApplicable, match=reason):
        timed(MLA(), context, ranks, **options)


def test_without_cache_nothing_applies(context: Any, ranks: list[Task]) -> None:
    with pytest.raises(NotApplicable):
        timed(NoAttention(), context, ranks)
    with pytest.raises(NotApplicable):
        ModelledThroughput().observe(NoAttention(), context)


def test_shares_are_parts_of_one_random_cache() -> None:
    plan = job(MLRA(), 2, 4)
    layout = MLRA().layout(SHAPE)

    def filled(share: Any, sequences: range) -> DeviceCache:
        cache = DeviceCache(layout, share, SHAPE.head_dim, len(sequences), 41, torch.float32)
        sharded.fill(cache, share, plan, sequences, "cpu")
        return cache

    whole = filled(layout.shares(SHAPE.heads, 1)[0], range(4))
    assert whole.length == 40
    assert whole.values[0, 0].std() > 0.5
    assert not torch.equal(whole.values[0, 0], whole.values[1, 0])
    for share in layout.shares(SHAPE.heads, 4):
        part = filled(share, range(2, 4))
        assert torch.equal(part.values, whole.values[2:, list(share.pieces)])
        assert torch.equal(part.filled("rope_key"), whole.filled("rope_key")[2:])


@pytest.mark.parametrize("method", [*METHODS.values(), MHA(), MQA()])
def test_one_device_holds_the_whole_layer(method: Any) -> None:
    module = layer(method, SHAPE, "meta")
    (whole,) = module.layout.shares(SHAPE.heads, 1)
    found = sum(t.numel() for t in held(device_of(module, whole)))
    assert found == count_parameters(module)


def test_amounts_by_hand() -> None:
    """Two heads of 4 over one key/value head, d = 8: 64 + 2 x 32 + 64 weights; 8 numbers a token in the cache."""
    module = layer(GQA(kv_heads=1), Shape(8, 2, 4), "meta")
    (whole,) = module.layout.shares(2, 1)
    found = amounts(module, whole, batch=3, context=10, dtype=torch.bfloat16)
    assert (found.weights, found.weight_bytes) == (192, 384)
    assert found.cache_bytes == 8 * 2 * 10 * 3
    assert found.projection_flops == 2 * 192 * 3
    assert found.attention_flops == 2 * 2 * (4 + 4) * 10 * 3


TINY: dict[str, Any] = {
    "devices": 4,
    "tensor_parallel": 2,
    "batch": 6,
    "context": 10,
    "heads": 2,
    "head_dim": 4,
    "model": 8,
    "peak_flops": 1e4,
    "memory_bandwidth": 1e3,
    "link_bandwidth": 100.0,
    "all_reduce_latency": 0.5,
    "overhead": 0.25,
}


def test_the_cost_model_by_hand(context: Any) -> None:
    """Two devices with one head each over the one key/value head: weights 32 + 2 x 32 + 32 on each, three sequences."""
    seen = ModelledThroughput(**TINY).observe(GQA(kv_heads=1), context)
    seconds = {name: float(array[0]) for name, array in seen.arrays.items()}
    assert seconds["projections"] == pytest.approx(max(128 * 2 / 1e3, 2 * 128 * 3 / 1e4))
    assert seconds["attention"] == pytest.approx(max(480 / 1e3, 2 * 8 * 10 * 3 / 1e4))
    assert seconds["all_reduce"] == pytest.approx(0.5 + 2 * (1 / 2) * (3 * 8 * 2) / 100)
    assert seconds["overhead"] == 0.25
    found = ModelledTokensPerSecond().score(seen, {}, context).value
    assert found == pytest.approx(6 / (0.256 + 0.48 + 0.98 + 0.25))


def test_heads_may_be_added_up_before_they_are_projected(context: Any) -> None:
    """Devices with heads of their own gain nothing and pay a reduce-scatter; others keep a part of W_O."""
    grouped = ModelledThroughput(**TINY, reduced="heads").observe(GQA(kv_heads=1), context)
    assert float(grouped.arrays["projections"][0]) == pytest.approx(128 * 2 / 1e3)
    assert float(grouped.arrays["all_reduce"][0]) == pytest.approx(0.98 + 0.5 + (1 / 2) * (3 * 8 * 2) / 100)

    shared = {**TINY, "tensor_parallel": 4, "heads": 4, "model": 16}
    seen = {r: ModelledThroughput(**shared, reduced=r).observe(MLRA(), context) for r in ("outputs", "heads")}
    assert seen["outputs"].values["weights"] - seen["heads"].values["weights"] == 16 * 16 * 3 / 4


def test_bound_by_arithmetic_where_that_is_slower(context: Any) -> None:
    seen = ModelledThroughput(**{**TINY, "peak_flops": 100.0}).observe(GQA(kv_heads=1), context)
    assert float(seen.arrays["projections"][0]) == pytest.approx(2 * 128 * 3 / 100)
    assert float(seen.arrays["attention"][0]) == pytest.approx(2 * 8 * 10 * 3 / 100)


def modelled(method: Any, **options: Any) -> float:
    nothing: Any = None
    seen = ModelledThroughput(**options).observe(method, nothing)
    value = ModelledTokensPerSecond().score(seen, {}, nothing).value
    assert value is not None
    return value


@pytest.mark.parametrize(("method", "tensor_parallel"), [(MLA(), 1), (GLA(), 2), (MLRA(), 4), (GQA(kv_heads=8), 8)])
def test_longer_contexts_are_slower_and_better_machines_never(method: Any, tensor_parallel: int) -> None:
    base = {"tensor_parallel": tensor_parallel}
    speeds = [modelled(method, context=1024 * 2**i, **base) for i in range(5)]
    assert all(a > b for a, b in itertools.pairwise(speeds))
    assert modelled(method, memory_bandwidth=6.7e12, **base) > modelled(method, **base)
    assert modelled(method, peak_flops=2e15, **base) >= modelled(method, **base)
    faster_link = modelled(method, link_bandwidth=9e11, **base)
    assert faster_link > modelled(method, **base) if tensor_parallel > 1 else faster_link == modelled(method, **base)


def test_the_model_is_not_the_measurement() -> None:
    assert set(ModelledTokensPerSecond.of) == {"decoding.modelled_throughput"}
    assert "modelled" in ModelledTokensPerSecond.unit
    assert Path(sys.modules[ModelledThroughput.__module__].__file__ or "").stem == "modelled_throughput"
