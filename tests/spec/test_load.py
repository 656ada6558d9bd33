"""Specs to studies: typing, defaults, matrices, resources, skips, forms."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.spec.errors import SpecErrors
from harness.spec.load import Registry, check, load
from harness.spec.study import Resources, Skip, Study, Use

Loaded = Callable[..., Study]
TEMPLATE = """\
harness: 1
study: toys
track: toy
methods:
  a: {method}
evaluations:
  speed: {speed}
{more}
"""


def text(method: str = "{use: toy.alpha}", speed: str = "{use: toy.speed}", more: str = "") -> str:
    return TEMPLATE.format(method=method, speed=speed, more=more)


def labels(study: Study) -> list[str]:
    return [row.label for row in study.methods]


def test_values_are_typed_by_the_parameters(loaded: Loaded) -> None:
    stated = "{lr: 1, layers: 1e4, revision: '1e10', languages: [en, no, se], window: 3.0, flag: true}"
    study = loaded(text(f"{{use: toy.alpha, params: {stated}}}"))
    params = study.methods[0].use.params
    assert params["lr"] == 1.0
    assert isinstance(params["lr"], float)
    assert params["layers"] == 10000
    assert isinstance(params["layers"], int)
    assert params["revision"] == "1e10"
    assert params["languages"] == ["en", "no", "se"]
    assert (params["window"], type(params["window"])) == (3, int)
    assert params["flag"] is True


def test_defaults_are_filled_in_the_adapters_order(loaded: Loaded) -> None:
    study = loaded(text("{use: toy.alpha, params: {layers: 3}}"))
    assert list(study.methods[0].use.params) == ["lr", "layers", "revision", "languages", "kind", "flag", "window"]


def test_given_and_built_parameters_are_absent_unless_named(loaded: Loaded) -> None:
    quality = "{use: toy.quality, params: {text: {use: toy.words}MODEL}}"
    more = (
        f"  quality: {quality.replace('MODEL', '')}\n  named: {quality.replace('MODEL', ', model: {use: toy.trained}')}"
    )
    study = loaded(text(more=more))
    cells = {cell.name: cell.use.params for cell in study.evaluations}
    assert cells["quality"] == {"text": Use("toy.words", {"size": 100, "seeded_by": "words"}), "alpha": 0.5}
    assert cells["named"]["model"] == Use("toy.trained", {})
    assert {"toy.trained", "toy.words", "toy.error"} <= set(study.adapters)


def test_components_nest(loaded: Loaded) -> None:
    inner = "{use: toy.mixed, params: {parts: [{use: toy.words, params: {size: 1}}, {use: toy.chars}]}}"
    study = loaded(text(f"{{use: toy.gamma, params: {{corpus: {inner}}}}}"))
    parts = study.methods[0].use.params["corpus"].params["parts"]
    assert parts == [Use("toy.words", {"size": 1, "seeded_by": "words"}), Use("toy.chars", {"size": 10})]


def test_a_build_may_have_resources_and_a_gate(loaded: Loaded) -> None:
    chars = "{use: toy.chars, resources: {memory: 1GiB, timeout: 00:01:00}, gate: {quality: '>=0.25'}}"
    study = loaded(text(f"{{use: toy.gamma, params: {{corpus: {chars}}}}}"))
    use = study.methods[0].use.params["corpus"]
    assert use.resources == {"memory": 2**30, "timeout": 60.0}
    assert use.gate == {"quality": ">= 0.25"}


def test_a_matrix_is_a_product_in_the_order_written(loaded: Loaded) -> None:
    study = loaded(text("{use: toy.alpha, matrix: {layers: [1, 2], lr: [1, 0.5], kind: [fast]}}"))
    assert labels(study) == [
        "a[layers=1|lr=1|kind=fast]",
        "a[layers=1|lr=0.5|kind=fast]",
        "a[layers=2|lr=1|kind=fast]",
        "a[layers=2|lr=0.5|kind=fast]",
    ]
    assert study.methods[0].cell == {"layers": 1, "lr": 1.0, "kind": "fast"}
    assert study.methods[3].use.params["lr"] == 0.5


def test_exclude_leaves_cells_out(loaded: Loaded) -> None:
    study = loaded(text("{use: toy.alpha, matrix: {layers: [1, 2], lr: [1, 2]}, exclude: [{layers: 2, lr: 1}]}"))
    assert labels(study) == ["a[layers=1|lr=1]", "a[layers=1|lr=2]", "a[layers=2|lr=2]"]


def test_vary_moves_one_axis_at_a_time(loaded: Loaded) -> None:
    study = loaded(text("{use: toy.alpha, params: {lr: 1}, vary: {lr: [1, 2], layers: [4]}}"))
    assert labels(study) == ["a[lr=1|layers=2]", "a[lr=2|layers=2]", "a[lr=1|layers=4]"]
    assert all(set(row.cell) == {"lr", "layers"} for row in study.methods)


def test_matrix_and_vary_together(loaded: Loaded) -> None:
    study = loaded(text("{use: toy.alpha, matrix: {kind: [slow, fast]}, vary: {layers: [3]}}"))
    assert labels(study) == [
        "a[kind=slow|layers=2]",
        "a[kind=slow|layers=3]",
        "a[kind=fast|layers=2]",
        "a[kind=fast|layers=3]",
    ]


def test_components_on_an_axis_are_shown_by_their_short_name(loaded: Loaded) -> None:
    values = "[{use: toy.chars}, {use: toy.words}, {use: toy.words, params: {size: 5}}, {use: other.words}]"
    study = loaded(text(f"{{use: toy.gamma, matrix: {{corpus: {values}}}}}"))
    assert [row.cell["corpus"] for row in study.methods] == [
        "chars",
        "toy.words(size=100)",
        "toy.words(size=5)",
        "other.words",
    ]
    assert study.methods[0].label == "a[corpus=chars]"


def test_text_that_could_be_misread_is_quoted_in_labels(loaded: Loaded) -> None:
    study = loaded(text("{use: toy.alpha, matrix: {revision: ['1', 'a|b', plain]}}"))
    assert labels(study) == ['a[revision="1"]', 'a[revision="a|b"]', "a[revision=plain]"]


def test_too_many_cells_are_refused(loaded: Loaded) -> None:
    many = ", ".join(map(str, range(1, 400)))
    with pytest.raises(SpecErrors, match="159201 combinations, more than 100000"):
        loaded(text(f"{{use: toy.alpha, matrix: {{lr: [{many}], layers: [{many}]}}}}"))


def test_resources_are_the_defaults_overridden_by_each_arm(loaded: Loaded) -> None:
    study = loaded(
        text(
            "{use: toy.alpha, resources: {gpus: 0.5}}",
            "{use: toy.speed, resources: {timeout: 1h, cpus: 1}}",
            "resources: {cpus: 2, memory: 512MiB, timeout: 10:00:00}",
        )
    )
    assert study.resources == Resources(2, 0, 2**29, 36000.0)
    assert study.methods[0].resources == Resources(2, 0.5, 2**29, 36000.0)
    assert study.evaluations[0].resources == Resources(1, 0, 2**29, 3600.0)


def test_default_metrics_and_listed_ones(loaded: Loaded) -> None:
    assert loaded(text()).evaluations[0].metrics == (Use("toy.rate"), Use("toy.size"))
    listed = loaded(text(speed="{use: toy.speed, metrics: [size, toy.rate]}"))
    assert listed.evaluations[0].metrics == (Use("toy.size"), Use("toy.rate"))
    assert listed.metric("speed", "rate") == Use("toy.rate")


@pytest.mark.parametrize(("more", "seeds"), [("", (0,)), ("seeds: 3", (0, 1, 2)), ("seeds: [7, 3]", (7, 3))])
def test_seeds(loaded: Loaded, more: str, seeds: tuple[int, ...]) -> None:
    assert loaded(text(more=more)).seeds == seeds


def test_options_of_the_call_replace_the_specs(loaded: Loaded) -> None:
    quality = "  quality: {use: toy.quality, params: {text: {use: toy.words}}}"
    study = loaded(
        text(more=quality + "\nseeds: 3\nlimit: 5"), seeds=2, limit=9, overrides=["methods.a.params={lr: 3}"]
    )
    assert (study.seeds, study.limit, study.methods[0].use.params["lr"]) == ((0, 1), 9, 3.0)


def test_a_wrong_override_is_its_own_place(loaded: Loaded) -> None:
    with pytest.raises(SpecErrors) as caught:
        loaded(text(), overrides=["methods.a.params={lr: fast, revision: 1e10}"])
    place = "--set methods.a.params={lr: fast, revision: 1e10}"
    assert [str(e) for e in caught.value.errors] == [
        f'{place}: lr is the text "fast", expected a number',
        f'{place}: revision is the number 1e10, expected text; quote it: "1e10"',
    ]


def test_profiles(loaded: Loaded) -> None:
    profiles = "profiles: {laptop: {}, smoke: {methods: {a: {params: {lr: 5}}}, seeds: 1}}\nseeds: 2"
    default, smoke = loaded(text(more=profiles)), loaded(text(more=profiles), profile="smoke")
    assert (default.profile, default.seeds) == ("laptop", (0, 1))
    assert (smoke.profile, smoke.seeds, smoke.methods[0].use.params["lr"]) == ("smoke", (0,), 5.0)


def test_skips(loaded: Loaded) -> None:
    more = """\
  count: {use: toy.speed, matrix: {parallel: [1, 2]}, skip: [{where: {parallel: 2}, reason: r1}]}
skip:
- {where: {method: a, evaluation: "count[parallel=1]"}, reason: r2}
- {where: {parallel: 64}, reason: elsewhere only}
profiles: {paper: {evaluations: {count: {matrix: {parallel: [1, 64]}}}}}"""
    study = loaded(text("{use: toy.stranger, skip: none}", more=more))
    assert study.skips == (
        Skip({"method": "a", "evaluation": "count[parallel=1]"}, "r2"),
        Skip({"method": "a"}, "none"),
        Skip({"evaluation": "count", "parallel": 2}, "r1"),
    )


def test_a_method_that_does_not_fit_needs_a_skip_for_every_cell(loaded: Loaded) -> None:
    speed = "{use: toy.speed, matrix: {parallel: [1, 2]}}"
    one, both = "{parallel: 1}", "{evaluation: speed}"
    with pytest.raises(SpecErrors, match=r"toy\.stranger is no Learner"):
        loaded(text(f"{{use: toy.stranger, skip: [{{where: {one}, reason: r}}]}}", speed))
    assert loaded(text(f"{{use: toy.stranger, skip: [{{where: {both}, reason: r}}]}}", speed)).skips


def test_exclude_may_name_what_another_profile_has(loaded: Loaded) -> None:
    method = "{use: toy.alpha, matrix: {layers: [1, 2]}, exclude: [{layers: 64}]}"
    profiles = "profiles: {paper: {methods: {a: {matrix: {layers: [2, 64]}}}}}"
    assert labels(loaded(text(method, more=profiles))) == ["a[layers=1]", "a[layers=2]"]
    assert labels(loaded(text(method, more=profiles), profile="paper")) == ["a[layers=2]"]


def test_a_class_from_a_file(loaded: Loaded, spec: Callable[..., str]) -> None:
    spec("", "mine.py")
    study = loaded(text("{use: ./mine.py:Mine}"))
    assert study.methods[0].use == Use("./mine.py:Mine")
    assert "./mine.py:Mine" in study.adapters


def test_names_of_any_script(loaded: Loaded) -> None:
    study = loaded(text().replace("  a:", "  Schrödinger ± 漢字:"))
    assert labels(study) == ["Schrödinger ± 漢字"]


def test_all_errors_of_all_files_at_once(spec: Callable[..., str], registry: Registry) -> None:
    spec("resources: {cpu: 1}\n", "common.yaml")
    first = spec("include: common.yaml\n" + text("{use: toy.alhpa}", more="x-a: *gone"), "one.yaml")
    second = spec(text(more="seeds: 0\nprofiles: {smoke: {seeds: none}}"), "two.yaml")
    places = [f"{e.file}:{e.line}" for e in check([first, second], registry)]
    assert places == ["common.yaml:1", "one.yaml:6", "one.yaml:9", "two.yaml:8", "two.yaml:9"]


def test_check_reports_a_mistake_of_every_form_once(spec: Callable[..., str], registry: Registry) -> None:
    name = spec(text("{use: toy.alpha, role: x}", more="profiles: {p: {seeds: 2}, q: {seeds: 3}}"))
    assert len(check([name], registry)) == 1


def test_errors_as_json(spec: Callable[..., str], registry: Registry) -> None:
    with pytest.raises(SpecErrors) as caught:
        load(spec(text(more="seed: 1")), registry)
    assert caught.value.to_json() == [
        {
            "file": "s.yaml",
            "line": 8,
            "column": 1,
            "message": 'unknown key "seed" at the top level',
            "hint": 'did you mean "seeds"?',
        }
    ]


def test_ten_thousand_rows_load_in_a_moment(loaded: Loaded) -> None:
    many = ", ".join(map(str, range(1, 101)))
    start = time.monotonic()
    study = loaded(text(f"{{use: toy.alpha, matrix: {{lr: [{many}], layers: [{many}]}}}}"))
    assert len(study.methods) == 10_000
    assert time.monotonic() - start < 5


def test_path_is_kept(spec: Callable[..., str], registry: Registry) -> None:
    study: Any = load(Path(spec(text())), registry)
    assert study.path == Path("s.yaml")
