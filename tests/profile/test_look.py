import signal

import pytest
from click.testing import CliRunner

from hotlap.cli.profile import profile
from hotlap.core.protocol import ProfilePayload, decode
from hotlap.core.spec import Mode
from hotlap.profile.look import Bounds, Look, look, would_spin
from hotlap.trial.channel import Message
from hotlap.trial.launch import Setting
from hotlap.trial.trial import TimeOverError


def payload_that(**fields):
    return decode(ProfilePayload, {"step": {"mean": 1.0}, "phases": {}, **fields})


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, ""),
        (0, ""),
        (-signal.SIGINT, "interrupted"),
        (130, "interrupted"),
        (3, "exit code 3"),
        (-signal.SIGKILL, "SIGKILL"),
    ],
)
def test_why_a_profile_is_partial(code, said):
    partial = Look(payload_that(), code).partial
    assert said in partial
    assert bool(partial) == bool(said)


@pytest.mark.parametrize("code", [0, 1, -signal.SIGTERM, 128 + signal.SIGTERM])
def test_a_program_that_was_ended_from_outside_was_interrupted_however_it_ends(code):
    partial = Look(payload_that(), code, signal.SIGTERM).partial
    assert partial == "the program was interrupted by SIGTERM"


def test_a_program_that_stands_still_has_a_partial_profile():
    still = payload_that(ended="still", stood_at="train.py:7", world=2)
    partial = Look(still, None, patience=30.0).partial
    assert "stood still at train.py:7" in partial
    assert "hotlap launch" in partial
    assert "for 30 s" in partial


def message(kind, **fields):
    return Message(kind, fields, None)


def rank_message(rank, steps):
    return message("rank", rank=rank, steps=steps, step=1.0, phases={"data": 1.0})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_launcher_of_ranks_that_ends_with_1_was_interrupted(number, monkeypatch, tmp_path):
    def run(_, __, ___, on_ending):
        on_ending(number)
        return 1

    monkeypatch.setattr("hotlap.profile.look.run_foreground", run)
    with pytest.raises(KeyboardInterrupt):
        look(Setting(("torchrun",), Mode.PROFILE, scratch=tmp_path), Bounds())


@pytest.mark.parametrize("of_first", [True, False])
def test_the_latest_times_of_every_rank_join_the_profile(monkeypatch, tmp_path, of_first):
    first = [{"rank": 0, "steps": 9, "step": 1.0, "phases": {}}] if of_first else []
    came = [rank_message(2, 5), rank_message(1, 5), rank_message(2, 8)]
    came.append(message("profile", step={"mean": 1.0}, phases={}, ended="exit", ranks=first))

    def run(_, see, *__):
        return 0 if not any(see(one) for one in came) else 1

    monkeypatch.setattr("hotlap.profile.look.run_foreground", run)
    found = look(Setting(("python",), Mode.PROFILE, scratch=tmp_path), Bounds())
    seen = [(rank.rank, rank.steps) for rank in found.payload.ranks]
    assert seen == ([(0, 9), (1, 5), (2, 8)] if of_first else [])


@pytest.mark.parametrize("code", [-signal.SIGINT, 130])
def test_interrupted_before_the_first_step(code, monkeypatch, tmp_path):
    monkeypatch.setattr("hotlap.profile.look.run_foreground", lambda *_: code)
    with pytest.raises(KeyboardInterrupt):
        look(Setting(("python",), Mode.PROFILE, scratch=tmp_path), Bounds())


def test_bounds_as_the_probe_takes_them():
    assert Bounds().options()["stop"] is True
    assert Bounds(steps=0).options()["stop"] is False
    assert Bounds(least=3.0, layers=True).options() == {
        "warmup": 5,
        "until": None,
        "steps": 200,
        "seconds": 20.0,
        "least": 3.0,
        "layers": True,
        "stop": True,
        "dataset": True,
        "patience": 120.0,
    }


def test_the_moment_of_the_last_step_reaches_the_probe():
    assert Bounds(until=12.5).options()["until"] == 12.5


def test_a_program_that_does_not_report_in_time_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr("hotlap.profile.look.run_foreground", lambda _, see, *__: see(None))
    with pytest.raises(TimeOverError, match="before a training step"):
        look(Setting(("python",), Mode.PROFILE, scratch=tmp_path), Bounds(deadline=0.0))


@pytest.mark.parametrize(
    "options", [["--steps", "-5"], ["--steps", "0"], ["--steps", "x"], ["--budget", "-1"]]
)
def test_senseless_bounds_are_refused(options):
    done = CliRunner().invoke(profile, [*options, "python", "train.py"])
    assert done.exit_code == 2
    assert options[0] in done.output


@pytest.mark.parametrize(
    ("facts", "policy", "spin"),
    [
        ({"threads": 2}, None, True),
        ({"threads": 1}, None, False),
        ({"threads": 2, "cuda": True}, None, False),
        ({}, None, False),
        ({"threads": 2}, "passive", False),
    ],
)
def test_threads_that_were_made_to_sleep_would_spin_in_a_run_of_the_users(
    monkeypatch, facts, policy, spin
):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if policy:
        monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    assert would_spin(facts) is spin


@pytest.mark.parametrize("passive", [False, True])
def test_where_threads_were_made_to_sleep_their_sleep_is_proposed(monkeypatch, tmp_path, passive):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    payload = decode(
        ProfilePayload,
        {"facts": {"threads": 2, "contended_threads": False}, "step": {"mean": 1.0}, "phases": {}},
    )
    monkeypatch.setattr("hotlap.profile.look._look", lambda *_: Look(payload, None))
    setting = Setting(("python",), Mode.PROFILE, scratch=tmp_path, passive_wait=passive)
    found = look(setting, Bounds())
    assert found.asleep is passive
    assert found.payload.facts["contended_threads"] is passive


def test_on_a_busy_machine_the_program_of_a_profile_sleeps_while_it_waits(monkeypatch, tmp_path):
    seen = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    monkeypatch.setattr(
        "hotlap.profile.look.look", lambda setting, *_: seen.append(setting) or 1 / 0
    )
    for busy in (False, True):
        monkeypatch.setattr("hotlap.trial.load.busy_now", lambda busy=busy: busy)
        CliRunner().invoke(profile, ["python", "train.py"])
    assert [setting.passive_wait for setting in seen] == [False, True]
