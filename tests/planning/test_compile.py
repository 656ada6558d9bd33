"""Studies to nodes: which runs there are, what they share, and what is in their keys."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from harness.planning.compile import Compiled, compile_study, skipped
from harness.planning.parts import PlanError, Sources, slug
from harness.spec.study import Resources, Skip, Use

WORDS = Use("toy.words", {"size": 10})


def runs(compiled: Compiled) -> list[str]:
    return sorted(n.name for n in compiled.nodes.values() if n.kind == "observation")


def keys(compiled: Compiled) -> set[str]:
    return set(compiled.nodes)


@pytest.fixture
def small(study, row, cell):
    def make(**more):
        return study(
            [row("mean", "toy.mean", shift=0), row("median", "toy.median")],
            [cell("quality", "toy.quality", text=WORDS)],
            **more,
        )

    return make


def test_one_run_per_method_cell_and_seed(small, sources):
    compiled = compile_study(small(), sources, "here")
    assert runs(compiled) == ["quality.mean.s0", "quality.mean.s1", "quality.median.s0", "quality.median.s1"]
    builds = sorted(n.name for n in compiled.nodes.values() if n.kind == "build")
    assert builds == ["fitted.mean.s0", "fitted.mean.s1", "fitted.median.s0", "fitted.median.s1", "words"]


def test_nodes_stand_after_what_they_require(small, sources):
    compiled = compile_study(small(), sources, "here")
    seen: set[str] = set()
    for key, node in compiled.nodes.items():
        assert set(node.requires) <= seen
        seen.add(key)
    fitted = next(n for n in compiled.nodes.values() if n.name == "fitted.mean.s0")
    assert [compiled.nodes[k].name for k in fitted.requires] == ["words"]
    assert fitted.document["component"]["params"]["text"] == {"$build": fitted.requires[0]}
    assert fitted.document["component"]["params"]["method"]["use"] == "toy.mean"
    run = next(n for n in compiled.nodes.values() if n.name == "quality.mean.s0")
    assert run.preload == ("numpy",)
    assert set(run.document["builds"]) == set(run.requires)


def test_deterministic_runs_once_and_timed_runs_take_all_methods_and_joint_values(study, row, cell, sources):
    methods = [row("mean", "toy.mean"), row("median", "toy.median")]
    speed = [cell("speed", "toy.speed", {"parallel": p, "context": c}) for p in (1, 2) for c in (8, 16)]
    compiled = compile_study(study(methods, [cell("count", "toy.count"), *speed]), sources, "here")
    assert runs(compiled) == ["count.mean", "count.median", "speed-context=16", "speed-context=8"]
    timed = next(n for n in compiled.nodes.values() if n.name == "speed-context=8")
    assert timed.exclusive
    assert timed.document["seed"] is None
    assert len(timed.document["entries"]) == 4
    assert {e["cell"]["parallel"] for e in timed.document["entries"]} == {1, 2}
    assert len(compiled.wanted) == 2 + 8


def test_labels_order_and_resources_are_not_in_keys(study, row, cell, sources):
    one = study([row("mean", "toy.mean"), row("median", "toy.median")], [cell("quality", "toy.quality", text=WORDS)])
    renamed = study([row("middle", "toy.median"), row("average", "toy.mean")], [cell("q", "toy.quality", text=WORDS)])
    wider = replace(one, resources=Resources(cpus=2), methods=tuple(reversed(one.methods)))
    assert keys(compile_study(one, sources, "here")) == keys(compile_study(renamed, sources, "here"))
    assert keys(compile_study(one, sources, "here")) == keys(compile_study(wider, sources, "elsewhere"))


def test_parameters_limit_seed_data_and_code_are_in_keys(small, sources, code):
    before = keys(compile_study(small(), sources, "here"))
    assert keys(compile_study(small(limit=5), sources, "here")) & before == {
        k for k, n in compile_study(small(), sources, "here").nodes.items() if n.kind == "build"
    }
    other_data = Sources(code, lambda reference: "other")
    assert keys(compile_study(small(), other_data, "here")) == before  # no asset is read by these
    code.edited["toy/mean.py"] = 1
    after = compile_study(small(), sources, "here")
    new = {n.name for k, n in after.nodes.items() if k not in before}
    assert new == {"fitted.mean.s0", "fitted.mean.s1", "quality.mean.s0", "quality.mean.s1"}


def test_only_timed_keys_hold_the_machine(study, row, cell, sources):
    both = study([row("mean", "toy.mean")], [cell("count", "toy.count"), cell("speed", "toy.speed", {"parallel": 1})])
    here, there = compile_study(both, sources, "here"), compile_study(both, sources, "there")
    assert {n.name for k, n in there.nodes.items() if k not in here.nodes} == {"speed"}


def test_scoring_parameters_share_an_observation_unless_the_method_reads_them(study, row, cell, sources):
    cells = [cell("quality", "toy.quality", {"alpha": a}, text=WORDS) for a in (0.1, 0.2)]
    compiled = compile_study(study([row("mean", "toy.mean")], cells, seeds=(0,)), sources, "here")
    (run,) = [n for n in compiled.nodes.values() if n.kind == "observation"]
    assert len(run.document["metrics"]) == 2
    assert [m["parameters"]["alpha"] for m in run.document["metrics"]] == [0.1, 0.2]
    assert len({w.score_key for w in compiled.wanted}) == 2
    reader = compile_study(study([row("reader", "toy.reader")], cells, seeds=(0,)), sources, "here")
    assert len([n for n in reader.nodes.values() if n.kind == "observation"]) == 2


def test_timings_with_other_grants_are_other_runs(study, row, cell, sources):
    speed = cell("speed", "toy.speed", {"parallel": 1})
    one = compile_study(study([row("mean", "toy.mean")], [speed]), sources, "here")
    two = compile_study(
        study([row("mean", "toy.mean")], [replace(speed, resources=Resources(cpus=2))]), sources, "here"
    )
    assert keys(one).isdisjoint(keys(two))


def test_one_build_under_two_gates_is_an_error(study, row, cell, sources):
    cells = [
        cell("quality", "toy.quality", {"size": n}, text=Use("toy.words", {}, gate={"n": f">= {n}"})) for n in (1, 2)
    ]
    with pytest.raises(PlanError, match="two gates"):
        compile_study(study([row("mean", "toy.mean")], cells), sources, "here")


def test_revisions_of_assets_in_lists_and_scoring_parameters_are_in_keys(study, row, cell, code):
    adapters = dict(cell.__globals__["ADAPTERS"])
    make = cell.__globals__["parameter"]
    listed = make("files", {"type": "array", "items": {"type": "string", "format": "asset"}}, ["a"])
    truth = make("truth", {"type": "string", "format": "asset"}, "b", scoring=True)
    count = adapters["toy.count"]
    adapters["toy.count"] = replace(count, parameters={"files": listed, "truth": truth})
    small = study([row("mean", "toy.mean")], [cell("count", "toy.count")], adapters=adapters)

    def compiled(**changed: str) -> Compiled:
        return compile_study(small, Sources(code, lambda reference: changed.get(reference, "old")), "here")

    assert keys(compiled()).isdisjoint(keys(compiled(a="new")))
    assert keys(compiled()) == keys(compiled(b="new"))
    assert {w.score_key for w in compiled().wanted}.isdisjoint(w.score_key for w in compiled(b="new").wanted)


def test_a_metric_changes_scores_alone(small, sources, code):
    before = compile_study(small(), sources, "here")
    code.edited["toy/error.py"] = 1
    after = compile_study(small(), sources, "here")
    assert keys(before) == keys(after)
    assert {w.score_key for w in before.wanted}.isdisjoint(w.score_key for w in after.wanted)


def test_equal_rows_are_one_run_under_two_labels(study, row, cell, sources):
    twice = study([row("a", "toy.mean", shift=1), row("b", "toy.mean", shift=1)], [cell("count", "toy.count")])
    compiled = compile_study(twice, sources, "here")
    (run,) = compiled.nodes.values()
    assert list(run.labels.values()) == [(("a", "count"), ("b", "count"))]
    assert {w.method for w in compiled.wanted} == {"a", "b"}


def test_declared_skips_are_wanted_and_not_run(small, sources):
    skip = Skip({"method": "median", "evaluation": "quality"}, "no median here")
    compiled = compile_study(small(skips=(skip,)), sources, "here")
    assert runs(compiled) == ["quality.mean.s0", "quality.mean.s1"]
    assert [w.skip for w in compiled.wanted if w.method == "median"] == ["no median here"]


def test_skip_matches_axes_of_both_sides(row, cell):
    method = row("mean[shift=2]", "toy.mean", shift=2)
    evaluation = cell("speed", "toy.speed", {"parallel": 4})
    assert skipped([Skip({"shift": 2, "parallel": 4}, "no")], method, evaluation) == "no"
    assert skipped([Skip({"shift": 2, "parallel": 2}, "no")], method, evaluation) is None
    assert skipped([Skip({"unknown": 2}, "no")], method, evaluation) is None
    same = row("mean[parallel=2]", "toy.mean", parallel=2)  # an axis of the same name on both sides
    assert skipped([Skip({"parallel": 2}, "no")], same, evaluation) == "no"


def test_a_given_that_is_not_there_is_an_error(study, row, cell, sources):
    adapters = dict(cell.__globals__["ADAPTERS"])
    count = adapters["toy.count"]
    fitted = adapters["toy.quality"].parameters["fitted"]
    adapters["toy.count"] = replace(count, parameters={**count.parameters, "fitted": fitted})
    broken = study([row("mean", "toy.mean")], [cell("count", "toy.count")], adapters=adapters)
    with pytest.raises(PlanError, match=r"toy\.fitted is given text, which toy\.count does not have"):
        compile_study(broken, sources, "here")


def test_a_build_given_itself_is_an_error(study, row, cell, sources):
    adapters = dict(cell.__globals__["ADAPTERS"])
    words = adapters["toy.words"]
    text = adapters["toy.fitted"].parameters["text"]
    adapters["toy.words"] = replace(words, parameters={**words.parameters, "text": text})
    broken = study([row("mean", "toy.mean")], [cell("quality", "toy.quality", text=WORDS)], adapters=adapters)
    with pytest.raises(PlanError, match="given itself"):
        compile_study(broken, sources, "here")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("perplexity.mlra-4.s0", "perplexity.mlra-4.s0"),
        ("größe[x=1|y=a--b]", "gr-e-x=1-y=a-b"),
        ("漢字", "node"),
        ("cache[x=1].mla", "cache-x=1.mla"),
        ("a/../b", "a-..-b"),
    ],
)
def test_slugs_are_plain_and_keep_the_separator_free(label, expected):
    assert slug(label) == expected


def test_long_names_fit_into_a_file_name(study, row, cell, sources):
    axes = {f"axis{i}": "v" * 30 for i in range(12)}
    compiled = compile_study(study([row("mean", "toy.mean")], [cell("count", "toy.count", axes)]), sources, "here")
    (node,) = compiled.nodes.values()
    assert len(node.directory_name) <= 120
    assert node.directory_name.startswith("count-axis0=vvv")


def test_ten_thousand_runs_are_compiled_in_seconds(study, row, cell, sources):
    methods = [row(f"m{i}[shift={i}]", "toy.mean", shift=i) for i in range(20)]
    cells = [cell("quality", "toy.quality", {"size": s}, text=WORDS) for s in range(50)]
    big = study(methods, cells, seeds=tuple(range(10)))
    start = time.process_time()
    compiled = compile_study(big, sources, "here")
    seconds = time.process_time() - start
    assert len(runs(compiled)) == 10_000
    assert seconds < 5  # 1.3 s on an idle core; benchmarks/planning.py measures it


def test_an_evaluation_is_done_with_the_methods_it_lists(small, sources):
    everything = small()
    cells = tuple(replace(c, methods=("mean",)) for c in everything.evaluations)
    skips = (Skip({"method": "median"}, "slow"),)
    compiled = compile_study(replace(everything, evaluations=cells, skips=skips), sources, "here")
    assert runs(compiled) == ["quality.mean.s0", "quality.mean.s1"]
    assert {w.method for w in compiled.wanted} == {"mean"}
    both = compile_study(everything, sources, "here")
    assert set(compiled.nodes) < set(both.nodes)
