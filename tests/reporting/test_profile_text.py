import io
from dataclasses import replace

import pytest
from rich.console import Console

from hotlap.core.protocol import PhaseTimes, ProfilePayload
from hotlap.profile.look import Look
from hotlap.profile.model import (
    WAS_INTERRUPTED,
    Finding,
    Headroom,
    Line,
    Phase,
    Profile,
    Rank,
    Remedy,
)
from hotlap.reporting import layers_text, profile_text
from hotlap.reporting.findings_text import AT_MOST
from hotlap.reporting.profile_text import limit, under_load
from hotlap.trial.command import THIS_CELL


def finding(what="the optimizer: 12% of a step, 2 ms", place="train.py:7", most=1.1, **more):
    remedy = Remedy("fused_optimizer", "one kernel", ("optimizer",), place, most, 0.1)
    return Finding(what, place, "optimizer.step()", 0.12, most, (remedy,), **more)


def profile(**more):
    return Profile(
        **{
            "steps": 37,
            "step": 0.0142,
            "step_p10": 0.013,
            "step_p90": 0.016,
            "device": "cpu",
            "phases": (Phase("forward", 0.01, 0.009, 0.011, 0.7),),
            "lines": {},
            "samples_per_second": 100.0,
            "tokens_per_second": 0.0,
            "memory_by_phase": {"forward": 2**20},
            "memory_by_owner": {"parameters": 2048, "buffers": 12},
            "peak_memory": 2**30,
            "headroom": None,
            "findings": (finding(),),
            **more,
        }
    )


def printed(found, width=100, **options):
    out = io.StringIO()
    profile_text.show(Console(file=out, width=width, highlight=False), found, **options)
    return out.getvalue()


def test_a_whole_profile():
    text = printed(profile())
    assert "14.2 ms a step" in text
    assert "1. the optimizer: 12% of a step, 2 ms (at most 1.10x)" in text
    assert "at train.py:7  optimizer.step()" in text
    assert "- fused_optimizer: one kernel\n" in text
    assert "partial" not in text


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"backwards": 4}, "100 samples/s; 4 backward passes a step\n"),
        ({"backwards": 4, "samples_per_second": 0.0}, "\n4 backward passes a step\n"),
        ({"backwards": 1}, "100 samples/s\n"),
    ],
)
def test_a_step_of_several_batches_is_said_to_be_one(found, said):
    assert said in printed(profile(**found))


def test_a_partial_profile_says_so_and_why():
    text = printed(profile(partial="the program was ended by SIGTERM"))
    assert text.startswith("partial: the program was ended by SIGTERM")
    assert "37 steps" in text.splitlines()[0]
    assert "partial" in printed(profile(partial="it failed"), brief=True)


RANKS = (
    Rank(0, 200, 0.0293, {"data": 0.0006, "backward": 0.0019}, 0.0213, 0.0032, 0.0015),
    Rank(1, 200, 0.0291, {"data": 0.021, "backward": 0.0025}, 0.0, 0.0032, 0.0029),
)


@pytest.mark.parametrize("width", [80, 140])
def test_several_ranks_are_compared(width):
    text = printed(profile(world=2, ranks=RANKS), width)
    (late,) = (line.split() for line in text.splitlines() if "data loading 21.0 ms" in line)
    assert late == [
        "1",
        "23.5",
        "ms",
        "data",
        "loading",
        "21.0",
        "ms",
        "0",
        "us",
        "3.2",
        "ms",
        "2.9",
        "ms",
    ]
    assert "21.3 ms" in text
    assert max(map(len, text.splitlines())) <= width
    assert "for others" not in printed(profile())


def test_waits_that_are_not_known_are_not_shown():
    unknown = tuple(replace(rank, straggler=None, communication=None) for rank in RANKS)
    text = printed(profile(world=2, ranks=unknown))
    assert "not known" in text
    assert "own work" not in text
    assert "1 rank of 3 sent no times" in printed(profile(world=3, ranks=unknown))


def test_of_many_ranks_those_that_work_longest_are_listed():
    many = [replace(RANKS[0], rank=number) for number in range(19)]
    text = printed(profile(world=20, ranks=(*many, replace(RANKS[1], rank=19))))
    assert "  19   23.5 ms" in text
    assert "4 ranks more that work less" in " ".join(text.split())


def test_nothing_found():
    assert "No known problem costs 2 % of a step" in printed(profile(findings=()))
    few = printed(profile(findings=(), steps=3))
    assert "No known problem in 3 steps, too few to tell" in few


def test_without_a_problem_the_line_that_takes_most_is_pointed_at():
    lines = {"forward": (Line("model.py:3", "forward", "wet = conv1d(x, room)", 0.9),)}
    text = printed(profile(findings=(), lines=lines))
    share = 0.9 * next(one.share for one in profile().phases if one.name == "forward")
    assert f"most time goes to model.py:3 ({share:.0%} of a step); hotlap knows no cause" in text
    stray = {"forward": (Line("model.py:3", "forward", "wet = conv1d(x, room)", 0.9, samples=1),)}
    assert "most time" not in printed(profile(findings=(), lines=stray))
    few = {"forward": (Line("model.py:3", "forward", "wet = conv1d(x, room)", 0.1),)}
    assert "most time" not in printed(profile(findings=(), lines=few, backward_by_line=()))


def test_what_has_no_figure_is_given_none():
    text = printed(profile(findings=(finding("the sum keeps every graph", most=1.0),)))
    assert "1. the sum keeps every graph\n" in text


def test_markup_in_source_is_text():
    odd = finding(place="train.py:7")
    odd = Finding("[bold]x[/bold]", odd.place, "a[/]b", odd.share, odd.most, odd.remedies, odd.also)
    text = printed(profile(findings=(odd,), notes=("[red]",)))
    assert "[bold]x[/bold]" in text
    assert "a[/]b" in text


def test_waiting_for_data_is_to_be_raced_with_its_bound():
    remedies = tuple(
        Remedy(name, "", ("data",), "", 2.0, 0.5, by_hand=name == "python_transforms")
        for name in ("loader_workers", "python_transforms")
    )
    data = Finding("waiting for data", "train.py:3", "", 0.5, 2.0, remedies)
    text = printed(profile(findings=(data,), command="python 'my train.py'"))
    assert "hotlap tune --only loader_workers python 'my train.py'" in text
    assert "waiting for data (at most 2.00x)" in text
    assert "race it" not in printed(profile())


def test_further_places_are_named_once_and_few():
    places = tuple(f"train.py:{line}" for line in range(1, 7))
    remedy = Remedy("host_sync", "read less", ("other",), places[0], 1.1, 0.1, places[1:])
    text = printed(profile(findings=(Finding("it waits", places[0], "", 0.1, 1.1, (remedy,)),)))
    assert "[train.py:2, train.py:3, train.py:4 and 2 more]" in text


def test_an_option_that_a_pattern_found_names_each_of_its_places():
    places = ("train.py:44", "train.py:46")
    remedy = Remedy("bias_before_norm", "pass bias=False", ("forward",), places[0], 1.0, 0.0,
                    places[1:], by_hand=True)  # fmt: skip
    found = Finding("its bias goes", places[0], "", 0.0, 1.0, (remedy,), pattern="x", problem=False)
    text = printed(profile(findings=(found,)))
    assert "pass bias=False [train.py:44, train.py:46]" in text


def test_what_the_head_says_is_not_said_again_below_it():
    says = "every step searches for unused parameters, and there are none"
    remedy = Remedy("ddp_unused_search", says, ("forward",), "train.py:9", 1000.0, 0.1)
    head = f"forward and backward: 89% of a step, 218.8 ms; {says}"
    found = Finding(head, "train.py:9", "", 0.89, 1000.0, (remedy,))
    text = " ".join(printed(profile(findings=(found,))).split())
    assert text.count(says) == 1
    assert "ddp_unused_search: do not search for unused parameters where all are used" in text


def test_lines_fit_the_terminal():
    long = finding("word " * 60)
    assert max(map(len, printed(profile(findings=(long,))).splitlines())) <= 100


@pytest.mark.parametrize(
    ("rate", "said"), [(5e9, "under 1 %"), (5e10, "5% of the measured"), (9e11, "90% of")]
)
def test_limit(rate, said):
    assert said in limit(Headroom(1e6, rate, "float32", 1e12))
    assert "peak" not in limit(Headroom(1e6, rate, "float32", None))


@pytest.mark.parametrize(
    ("starved", "said"),
    [
        (None, ""),
        ({}, "GPU     the host keeps it busy: it waits for less than 5% of a step"),
        (
            {"data": 0.0071, "forward": 0.001},
            "GPU     waits for the host in up to 57% of a step (data loading 50%, forward 7%)",
        ),
        (
            {"forward": 0.003, "backward": 0.007},
            "GPU     waits for the host in up to 70% of a step (backward 49%, forward 21%): "
            "kernels run faster than the host starts them",
        ),
    ],
)
def test_what_the_gpu_waits_for(starved, said):
    text = printed(profile(device="cuda", starved=starved), width=160)
    assert said in text
    assert ("GPU" in text) is bool(said)


def test_the_names_of_layers_are_whole_in_a_pipe_and_in_a_terminal():
    row = {"layer": "encoder.blocks.11.attention.projection.out", "kind": "K" * 30, "place": "",
           "seconds": 0.1, "flops": 1, "parameters": 1, "traffic": 1, "elements": 1,
           "operators": 1, "pointwise": 0, "calls": 1, "shape": {}, "shares_input": 0}  # fmt: skip
    layers = {"rows": [row], "left_out": 0}
    for width, kinds in ((400, True), (80, False)):
        out = Console(width=width, file=io.StringIO())
        layers_text.show(out, layers)
        text = out.file.getvalue()
        assert row["layer"] in text
        assert (row["kind"] in text) is kinds
        assert max(map(len, text.splitlines())) <= width


def test_layers_have_their_table_and_their_worst():
    row = {
        "layer": "features.0", "kind": "Conv2d", "place": "train.py:3", "parameters": 448,
        "calls": 1, "operators": 1, "flops": 2_000_000, "traffic": 4096, "elements": 1024,
        "pointwise": 0, "seconds": 0.002, "shares_input": 1,
        "shape": {"in": 1, "out": 64, "groups": 1, "kernel": 9, "positions": 10},
    }  # fmt: skip
    text = printed(profile(layers={"rows": [row], "left_out": 2}))
    assert "features.0" in text
    assert "2 M" in text
    assert "G1 equal channel widths: features.0, 1 channels in, 64 out" in text
    assert "and 2 more" not in text
    many = [{**row, "layer": f"layer{i}"} for i in range(20)]
    assert "and 6 more" in printed(profile(layers={"rows": many, "left_out": 2}))


def test_steps_that_vary_manifold_are_warned_of():
    assert "steps vary 10-fold" in printed(profile(step_p10=0.0136, step_p90=0.136))
    assert "vary" not in printed(profile())
    evaluated = Phase("evaluation", 0.012, 0.0, 0.12, 0.9)
    few = profile(step_p10=0.0136, step_p90=0.136, phases=(evaluated,))
    assert "vary" not in printed(few), "every tenth step holds an evaluation"


def test_problems_and_options_are_two_lists():
    option = finding("forward and backward: 86% of a step, 8 ms", "train.py:5", 7.14, problem=False)
    text = printed(profile(findings=(finding(), option), command="python train.py"))
    problems, _, options = text.partition("Worth racing")
    assert "1. the optimizer: 12%" in problems
    assert "forward and backward: 86%" in options
    assert "fused_optimizer: one kernel\n" in options, "7.14x says nothing"
    assert "hotlap tune --only fused_optimizer python train.py" in options
    assert "No known problem" in printed(profile(findings=(option,)))
    less = finding("the optimizer: 40% of a step, 4 ms", "train.py:5", 1.64, problem=False)
    assert "one kernel (cannot give more than 1.64x)" in printed(profile(findings=(less,)))


def test_few_steps_are_said_with_an_interval():
    text = " ".join(printed(profile(steps=5)).split())
    assert "only 5 steps timed: the mean step lies between about 13.2 ms and 15.2 ms" in text
    one = " ".join(printed(profile(steps=1)).split())
    assert "only 1 step timed: shares are rough" in one
    assert "lies between" not in one
    assert "steps timed" not in printed(profile(steps=37))


@pytest.mark.parametrize(
    ("command", "advice"),
    [("", "profile more steps"), (THIS_CELL, "profile more steps"), ("python a.py", "--budget")],
)
def test_few_steps_of_a_cell_are_not_given_more_time_by_an_option(command, advice):
    text = " ".join(printed(profile(steps=5, command=command)).split())
    assert f"shares are rough; {advice}" in text


def test_a_program_that_ended_by_itself_is_not_advised_to_be_given_more_time():
    text = " ".join(printed(profile(steps=5, command="python train.py", ended_after=5)).split())
    assert "shares are rough; the program ended after 5: let it train longer" in text
    assert "--budget" not in text


def test_a_program_that_was_interrupted_is_not_given_more_time_by_an_option():
    text = " ".join(printed(profile(steps=5, partial=WAS_INTERRUPTED)).split())
    assert "shares are rough; let it run longer before you end it" in text
    assert "--budget" not in text


def test_no_race_is_advised_for_a_program_that_is_too_short_for_it():
    option = finding(problem=False)
    known = {"findings": (option,), "command": "python train.py"}
    assert "hotlap tune" in printed(profile(**known))
    text = printed(profile(**known, too_short=True))
    assert "hotlap tune" not in text
    assert "let the program train longer" in text


@pytest.mark.parametrize(
    ("code", "ended", "raced"),
    [(1, "exit", False), (-9, "exit", False), (None, "still", False), (130, "exit", True)],
    ids=["failed", "killed", "stood still", "interrupted"],
)
def test_no_race_is_advised_for_a_program_that_failed_or_stood_still(code, ended, raced):
    why = Look(ProfilePayload(PhaseTimes(0.01), {}, ended=ended), code).partial
    found = profile(findings=(finding(problem=False),), command="python train.py", partial=why)
    text = " ".join(printed(found).split())
    assert ("hotlap tune" in text) is raced
    assert ("Next: fix what made the program fail or stand still" in text) is not raced


def test_a_phase_whose_mean_a_few_steps_make_says_so():
    phase = Phase("forward", 0.05, 0.001, 0.002, 0.7)
    assert "a few far longer" in printed(profile(phases=(phase,)))
    usual = Phase("forward", 0.05, 0.001, 0.002, 0.7, 0.0015)
    assert "2.0 ms; 1.5 ms without outliers" in printed(profile(phases=(usual,)))
    busy = Phase("forward", 0.05, 0.001, 0.06, 0.7, 0.02)
    text = printed(profile(phases=(busy, replace(busy, name="evaluation_data"))), width=80)
    assert "60.0 ms; 20.0 ms without outliers" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "evaluation data  50.0 ms" in text, "one line a phase"
    assert "a few far longer" not in printed(profile())


def test_where_outliers_make_the_shares_differ_the_usual_step_is_named():
    busy = Phase("forward", 0.05, 0.001, 0.06, 0.7, 0.02)
    words = "without outliers a step takes 40.0 ms; shares below are shares of that"
    assert words in printed(profile(phases=(busy,), step=0.07))
    assert "without outliers a step" not in printed(profile(phases=(busy,), step=0.7))


def test_the_next_command_stays_short():
    remedies = tuple(
        Remedy(name, "", ("data",), "", 2.0, 0.5)
        for name in ("loader_workers", "cached_dataset", "pinned_memory")
    )
    data = Finding("waiting for data", "train.py:3", "", 0.5, 2.0, remedies)
    text = printed(profile(findings=(data,), command="python train.py"))
    assert "  hotlap tune python train.py\n" in text


def test_a_busy_machine_is_named_and_no_limit_is_claimed(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    headroom = Headroom(1e6, 5e9, "float32", 1e12)
    remedies = (Remedy("cached_dataset", "", ("data",), "", 2.0, 0.5),)
    data = Finding("waiting for data", "train.py:3", "", 0.5, 2.0, remedies)
    found = profile(headroom=headroom, device="cpu", findings=(data,))
    calm, busy = (" ".join(printed(under_load(found, cores)).split()) for cores in (0.3, 3.1))
    assert "limited by memory or by overhead" in calm
    assert "other programs" not in calm
    assert "limited by memory" not in busy
    assert busy.count("other programs used 2.0 of 2 cores meanwhile") == 1
    assert "--wait" not in busy, "profile has no such option"
    assert "no bound (at most) follows" in busy
    assert "(at most 2.00x)" in calm
    assert "2.00x" not in busy


def test_threads_that_were_made_to_sleep_are_named(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    found = profile(device="cpu")
    for cores in (0.1, 1.5):
        text = " ".join(printed(under_load(found, cores, asleep=True)).split())
        assert "the program ran with OpenMP threads that sleep while they wait" in text
    assert "OpenMP threads that sleep" not in printed(under_load(found, 1.5))


def test_the_rate_of_one_rank_is_not_taken_for_that_of_all():
    text = " ".join(printed(profile(world=2)).split())
    assert "100 samples/s (rank 0 of 2; all ranks about 200 samples/s" in text
    assert "rank" not in printed(profile())


def test_a_rate_that_is_of_two_phases_says_so():
    assert "1 MFLOP a step, 50 GFLOP/s in forward and backward" in limit(
        Headroom(1e6, 5e10, "float32", None)
    )


def test_what_a_bound_means_and_the_order_are_said_once():
    option = finding("forward and backward: 86% of a step, 8 ms", "train.py:5", 7.14, problem=False)
    text = printed(profile(findings=(finding(), option)))
    assert text.count(AT_MOST) == 1
    assert text.count("the largest expected gain first") == 2
    assert "at most" not in printed(profile(findings=(option,))), "no promise of what was not raced"
    assert "at most" not in printed(profile(findings=(finding(most=1.0),)))


def test_what_only_a_person_can_apply_is_marked_and_not_raced():
    remedy = Remedy("fused_attention", "call it", (), "train.py:7", 1.2, 0.1, by_hand=True)
    text = printed(profile(findings=(Finding("scores", "train.py:7", "", 0.2, 1.2, (remedy,)),)))
    assert "- fused_attention (by hand): call it" in text
    assert "Next" not in text


def test_the_shares_stand_whole_in_80_columns():
    names = ("backward", "forward", "optimizer", "evaluation_data", "other")
    phases = tuple(Phase(name, 0.0849, 0.0635, 0.0649, 0.625) for name in names)
    out = io.StringIO()
    profile_text.show(Console(file=out, width=80, highlight=False), profile(phases=phases))
    assert out.getvalue().count(" 62.5%") == len(names)
    assert " share " in out.getvalue()


def test_lines_of_the_forward_pass_are_shown_where_it_has_several():
    def line(number, share, samples):
        return Line(f"net.py:{number}", "forward", f"x = f{number}(x)", share, samples=samples)

    many, few = (line(3, 0.75, 30), line(4, 0.25, 10)), (line(3, 0.75, 3), line(4, 0.25, 1))
    assert "\nforward, by line\n   75%  net.py:3  x = f3(x)\n" in printed(
        profile(lines={"forward": many})
    )
    assert "\nforward, by line (of 4 samples only)\n" in printed(profile(lines={"forward": few}))
    assert "by line" not in printed(profile(lines={"forward": many[:1]}))
    assert "by line" not in printed(profile(lines={"other": many}))  # no such phase


def test_what_the_backward_pass_works_for_is_shown_by_line_with_its_operators():
    def line(number, share, *operators):
        return Line(f"net.py:{number}", "forward", f"x = f{number}(x)", share, operators=operators)

    phases = (Phase("backward", 0.0849, 0.0635, 0.0649, 0.625),)
    lines = (line(3, 0.75, ("mm", 0.61), ("sum", 0.05)), line(4, 0.25, ("add", 0.1)))
    text = printed(profile(phases=phases, backward_by_line=lines))
    assert (
        "\nbackward, by line of the forward pass\n   75%  net.py:3  x = f3(x)  # mm 61%\n"
        "   25%  net.py:4  x = f4(x)\n"
    ) in text


def test_python_that_runs_in_the_backward_pass_has_lines_of_its_own():
    phases = (Phase("backward", 0.0849, 0.0635, 0.0649, 0.625),)
    lines = [Line(f"net.py:{n}", "backward", f"x = f{n}(x)", share, 60)
             for n, share in ((3, 0.75), (4, 0.25))]  # fmt: skip
    text = printed(profile(phases=phases, lines={"backward": tuple(lines)}))
    assert "\nbackward, by line\n   75%  net.py:3  x = f3(x)\n" in text
    text = printed(profile(phases=phases, lines={"backward": tuple(lines[:1])}))
    assert "backward, by line" not in text, "that of loss.backward()"


def test_source_gives_way_to_the_names_of_operators_but_not_all_of_it():
    source, operators = "x = self.very(long, names, of, many, things) + y", (("mm", 0.9),)
    line = Line("net.py:3", "forward", source, 0.5, operators=operators)
    shown = {width: str(profile_text.shown_line(line, width)) for width in (80, 60, 44)}
    assert shown[80] == f"   50%  net.py:3  {source}  # mm 90%"
    assert shown[60] == "   50%  net.py:3  x = self.very(long, names, …  # mm 90%"
    assert shown[44] == "   50%  net.py:3  x = self.very(long, …"
