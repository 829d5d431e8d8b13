"""Options and values that are mistyped: each verb names the one that was meant."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from hotlap.cli.main import hotlap
from verbs import commands

HANDED_ON = {"launch"}
"""Verbs that hand options that they do not know to another program."""


def long_options() -> Iterator[tuple[tuple[str, ...], click.Option, str]]:
    for words, command in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                yield words, option, max(option.opts, key=len)


OPTIONS = [
    pytest.param(words, name, id=" ".join((*words, name)))
    for words, _, name in long_options()
    if len(name) > 5 and words[0] not in HANDED_ON
]
CHOICES = [
    pytest.param(words, name, value, id=" ".join((*words, name, value)))
    for words, option, name in long_options()
    if isinstance(option.type, click.Choice)
    for value in option.type.choices
    if len(value) > 2
]


def test_there_are_options_and_choices() -> None:
    assert len(OPTIONS) > 60
    assert len(CHOICES) > 20


@pytest.mark.parametrize(("words", "name"), OPTIONS)
def test_a_mistyped_option_names_the_one_that_was_meant(words: tuple[str, ...], name: str) -> None:
    mistyped = name[:-2] + name[-1] + name[-2]
    if mistyped == name:
        mistyped = name[:-1]
    result = CliRunner().invoke(hotlap, [*words, mistyped, "a", "--", "b"])
    assert result.exit_code == 2, result.output
    assert "No such option" in result.output
    assert name in result.output.partition("No such option")[2], result.output


@pytest.mark.parametrize(("words", "name", "value"), CHOICES)
def test_a_mistyped_value_names_the_one_that_was_meant(
    words: tuple[str, ...], name: str, value: str
) -> None:
    result = CliRunner().invoke(hotlap, [*words, name, value[:-1] + "~", "a", "b"])
    assert result.exit_code == 2
    assert "Did you mean" in result.output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("plan", "--precision", "bfloat16", "--batch", "8", "--gpus", "8", "llama3-8b"), "bf16"),
        (("tune", "--allow", "Exat", "python"), "exact"),
        (("tune", "--bugdet=3m", "python", "train.py"), "--budget"),
    ],
)
def test_what_was_meant(words: tuple[str, ...], meant: str) -> None:
    result = CliRunner().invoke(hotlap, words)
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'?" in result.output


def test_options_of_the_program_are_left_to_it() -> None:
    result = CliRunner().invoke(hotlap, ["tune", "no-such-program", "--bugdet", "3"])
    assert "No such option" not in result.output
