"""The page and the table of a fit say what was gained, what is unknown and where, and in which unit."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.identify import Fit
from surefoot.identify.fit import Confounded, Run, Score
from surefoot.identify.fit_table import rows_of, units_of
from surefoot.identify.identifiable import unidentified
from surefoot.identify.report_page import COLOURS, report, verdict
from test_identify_fit import TRUTH, arm, recording
from test_identify_fit import params as arm_params

PRIOR = np.diag([1 / 12] * 3)


def schema(**more) -> sf.Params:
    return sf.Params(
        kp=sf.kp("a", low=10.0, high=40.0, nominal=20.0),
        damping=sf.damping("a", low=0.01, high=1.0, nominal=0.1),
        encoder_bias=sf.encoder_bias("a", low=-0.1, high=0.1, nominal=0.0),
        **more,
    )


def made(params: sf.Params, **more) -> Fit:
    bound = params.bind({name: () for name in params})
    values = 0.5 * (bound.low + bound.high)
    width = 0.01 * (bound.high - bound.low)
    return Fit.made(bound, values, np.diag(width**2), white_std=width, freedom=10.0, **more)


def score(column: str, before: float, after: float, *, channel="joint_pos", unit="rad", windows="held out") -> Score:
    return Score(
        windows=windows, channel=channel, column=column, before=before, after=after, floor=1e-3, unit=unit, horizon=1.0, start="log",
    )  # fmt: skip


# ---- what is unknown ----------------------------------------------------------------------------


def test_each_direction_has_its_own_width():
    """Variances of the data of 10, 1 and 1/100 of the belief's leave sqrt(v / (v + 1)) of its width."""
    found = {c.names: c.shrink for c in unidentified(schema(), PRIOR @ np.diag([10.0, 1.0, 0.01]), PRIOR)}
    assert found[("kp",)] == pytest.approx(np.sqrt(10 / 11))
    assert found[("damping",)] == pytest.approx(np.sqrt(1 / 2))
    assert len(found) == 2


def test_a_direction_in_the_span_of_several_has_the_width_along_itself():
    c, s = np.cos(0.3), np.sin(0.3)
    turned = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ np.array(
        [[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]
    )
    scaled = turned @ np.diag([20.0, 2.0, 1e-4]) @ turned.T
    after = scaled @ np.linalg.inv(scaled + np.eye(3))
    found = [c.shrink for c in unidentified(schema(), scaled / 12, PRIOR)]
    assert len(found) == 2
    assert found[0] != pytest.approx(found[1], rel=0.01)
    for shrink in found:
        assert np.sqrt(np.linalg.eigvalsh(after)[1]) <= shrink <= np.sqrt(np.linalg.eigvalsh(after)[2])


def test_a_hardly_separated_pair_has_its_width_in_units_of_the_belief():
    data = 1e-4 * np.array([[1.0, 0.995, 0.0], [0.995, 1.0, 0.0], [0.0, 0.0, 1.0]])
    (pair,) = unidentified(schema(), data, PRIOR)
    widest = 12 * 1.995e-4
    assert pair.shrink == pytest.approx(np.sqrt(widest / (1 + widest)), rel=1e-6)


def test_the_table_says_in_which_recordings_a_param_is_unknown_or_at_a_bound():
    def runs(n):
        return tuple(
            Run(number=k + 1, log="", title="", values={"encoder_bias": 0.0}, std={"encoder_bias": 0.1})
            for k in range(n)
        )

    lost = Confounded(names=("encoder_bias@1", "kp"), combination="", experiment="", shrink=0.9)
    fit = made(schema(), unidentified=(lost,), at_bound=("encoder_bias@2", "encoder_bias@3"), runs=runs(3))
    remarks = {row[0]: row[-1] for row in rows_of(fit)[1:]}
    assert remarks["encoder_bias"] == "at a bound in recording 2, 3, not identified in recording 1"
    assert remarks["kp"] == "not identified"
    assert remarks["damping"] == ""
    everywhere = replace(lost, names=("encoder_bias@1", "encoder_bias@2"))
    remarks = {row[0]: row[-1] for row in rows_of(made(schema(), unidentified=(everywhere,), runs=runs(2)))[1:]}
    assert remarks["encoder_bias"] == "not identified"


# ---- units --------------------------------------------------------------------------------------


def test_a_slide_has_the_units_of_a_slide():
    def both(unit):
        return units_of(made(schema(slope=sf.slope(low=-0.1, high=0.1)), scores=(score("a", 1.0, 0.5, unit=unit),)))

    assert both("rad") == ["N·m/rad", "N·m·s/rad", "rad", "rad"]
    assert both("m") == ["N/m", "N·s/m", "m", "rad"]
    assert units_of(made(schema())) == ["N·m/rad", "N·m·s/rad", "rad"], "of a fit that was not judged the kind's own"


def test_a_param_over_both_sorts_of_joint_keeps_its_kinds_unit_and_each_scalar_has_its_own():
    scores = (score("a", 1.0, 0.5, unit="m"), score("b", 1.0, 0.5))
    tied = made(sf.Params(damping=sf.damping(".*", low=0.0, high=1.0)), scores=scores)
    assert units_of(tied) == ["N·m·s/rad"]
    params = sf.Params(damping=sf.damping(".*", low=0.0, high=1.0, each=True)).bind({"damping": ("a", "b")})
    fit = Fit.made(
        params, np.array([0.5, 0.5]), 1e-4 * np.eye(2), white_std=np.full(2, 0.01), freedom=9.0, scores=scores
    )
    assert units_of(fit) == ["N·s/m", "N·m·s/rad"]


# ---- the verdict --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "level", "words"),
    [
        ([(0.0781, 0.0766)], "note", "1.9 % nearer, which is little: a fit is called good from 10 % on"),
        ([(0.08, 0.02)], "good", "75 % nearer."),
        ([(0.08, 0.02), (0.02, 0.03)], "note", "Worse than with the nominal values: joint_pos of b."),
        ([(0.05, 0.06)], "warning", "no nearer."),
        ([(0.0012, 0.0011)], "good", "as near as the sensors can tell"),
        ([(0.08, 0.02), (0.001, 0.0012)], "good", "nearer."),
    ],
)
def test_the_verdict_is_good_only_where_something_was_gained_and_nothing_got_worse(errors, level, words):
    found, said = verdict([score("abc"[k], *pair) for k, pair in enumerate(errors)])
    assert found == level
    assert words in said
    assert ("Worse" in said) == ((level == "note" and len(errors) > 1) or level == "warning")


# ---- the page -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Parts of the page of a short fit, as the script reads them."""
    sim = sf.Sim(arm(tmp_path_factory.mktemp("arm")), arm_params(), seed=1)
    log = recording(sim, TRUTH, seconds=2.0)
    fit = sf.identify(sim, log, only=["kp", "damping"], window=0.5, jumps=False, most=3)
    html = report(sim, [log], fit, window=0.5).html()
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', html, re.S)
    return [json.loads(block) for block in blocks]


def test_a_name_has_one_colour_on_the_whole_page_and_nominal_lies_below(page):
    traces = [p for p in page if p["kind"] == "lines" and len(p["series"]) > 1]
    assert len(traces) == 2
    for plot in traces:
        assert {s["label"]: s["colour"] for s in plot["series"]}.items() <= COLOURS.items()
        assert plot["series"][0]["label"] == "nominal"
        assert plot["series"][-1]["label"] == "fitted"
    (intervals,) = (p for p in page if p["kind"] == "intervals")
    assert intervals["words"] == ["fitted", "nominal"]
    assert (COLOURS["fitted"], COLOURS["nominal"]) == (0, 1)


def test_every_axis_of_the_residuals_has_a_unit(page):
    labels = {p["xlabel"] for p in page if p["kind"] == "scatter"}
    assert labels == {"position [rad]", "absolute speed [rad/s]", "load: target minus position [rad]"}
