"""The translated pages say what the English ones say, as far as a machine can see it."""

import importlib.util
import re
from pathlib import Path

import pytest

from hotlap.core.registry import techniques

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"\d+(?:\.\d+)?")
CODE = re.compile(r"`([^`\n]+)`")


def _module():
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("translate", DOCS / "translate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


translate = _module()
PAGES = [
    (language, file.name)
    for language in translate.languages()
    for file in sorted((DOCS / "translations" / language).glob("*.md"))
]


@pytest.mark.parametrize("language", translate.languages())
def test_titles_are_of_techniques_and_groups_that_exist(language):
    words = translate.titles(language)
    assert set(words["techniques"]) <= set(techniques())
    assert set(words["groups"]) == {t.group.name.lower() for t in techniques().values()}
    assert all(words["techniques"].values())


@pytest.mark.parametrize(("language", "name"), PAGES, ids=str)
def test_a_translation_has_the_same_sections_blocks_figures_and_code(language, name):
    english = (DOCS / name).read_text("utf-8")
    text = (DOCS / "translations" / language / name).read_text("utf-8")
    blocks = translate.BLOCK.findall(english)
    places = [int(number) for number in translate.PLACE.findall(text)]
    assert places == list(range(1, len(blocks) + 1))
    prose, text = translate.BLOCK.sub("", english), translate.PLACE.sub("", text)
    for pattern in (re.compile("^#+ ", re.MULTILINE), NUMBER, CODE):
        assert sorted(pattern.findall(text)) == sorted(pattern.findall(prose))


def test_a_block_is_put_where_the_translation_names_it():
    english = "Text\n\n```\n$ one\n```\n\nmore\n\n```diff\n- two\n```\n"
    translated = translate.with_blocks("Satz\n\n<!-- block 2 -->\n\n<!-- block 1 -->\n", english)
    assert translated == "Satz\n\n```diff\n- two\n```\n\n```\n$ one\n```\n"


def test_every_technique_is_in_each_catalogue():
    pages = translate.pages()
    for language in translate.languages():
        page = pages[f"{language}/techniques.md"]
        assert all(f"(../techniques/{name}.md)" in page for name in techniques())
