"""What docs/distributions.md and docs/sensor_noise.md show runs, and finds what it says."""

import numpy as np
import pytest

import surefoot as sf
from test_docs import ROOT, blocks


def shown(page: str, monkeypatch, folder) -> dict:
    monkeypatch.chdir(folder)
    names: dict = {}
    for code in blocks(ROOT / "docs" / page):
        exec(compile(code, page, "exec"), names)
    return names


@pytest.mark.slow
def test_distributions_shown_on_their_page_are_found_and_trained_from(tmp_path, monkeypatch):
    names = shown("distributions.md", monkeypatch, tmp_path)
    fit, damping, e = names["fit"], names["damping"], names["e"]
    assert fit.mean[0] == pytest.approx(np.log(damping).mean(), abs=0.05)
    assert fit.std[0] == pytest.approx(np.log(damping).std(), rel=0.15)
    assert fit.needed
    drawn = names["cloud"].e
    assert np.corrcoef(drawn["arm_damping"], drawn["arm_coulomb"])[0, 1] < -0.5, "they stand in for each other"
    assert drawn["arm_damping"].min() < damping[0] < 1.03 * drawn["arm_damping"].max()
    near = names["near"].e
    assert near["arm_damping"].std() < 0.7 * 1.5e-3 / np.sqrt(12)
    rows = e.sample(500, 0)
    assert set(rows["arm_damping"]) <= set(drawn["arm_damping"])
    assert np.ptp(rows["arm_mass"]) > 0.05
    assert names["run"].steps >= 2000
    calves = names["first"].e["coulomb"][0]
    assert calves == pytest.approx([0.6, 0.8, 0.5, 0.9], rel=0.1)
    assert names["kind"].quantile(0.5)["coulomb"][0] == pytest.approx(np.exp(np.log(calves).mean()), rel=0.05)
    assert names["kind"].interval()["strength"] == pytest.approx((0.55, 1.45), abs=0.01)
    assert names["seen"].inside("joint_pos").mean() > 0.7


def test_sensor_noise_shown_on_its_page_is_found(tmp_path, monkeypatch):
    names = shown("sensor_noise.md", monkeypatch, tmp_path)
    fit, sim = names["fit"], names["sim"]
    assert fit.e["gyro_noise"][0] == pytest.approx(2.6e-4, rel=0.05)
    assert fit.e["accel_noise"][0] == pytest.approx(2.2e-3, rel=0.05)
    assert fit.e["encoder_noise"][0] == pytest.approx(1e-3, rel=0.05)
    assert fit.blocks >= 20
    assert len(set(sim.e["gyro_noise"])) == 64
    assert names["e"].params.names == names["everything"].params.names
    assert sf.Prior.load(tmp_path / "noise.toml") == fit.prior
