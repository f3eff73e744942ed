"""The schema of e: bounds, names, vectors and back, files, and errors that teach."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot as sf
from surefoot.params import CONSTRUCTORS, GROUPS, KINDS, label


def schema() -> sf.Params:
    params = sf.Params(
        foot_friction=sf.friction(".*_foot", low=0.3, high=1.2, scale="log"),
        kd=sf.kd(low=0.5, high=2.0, each=True),
        gyro_bias=sf.gyro_bias(low=-0.1, high=0.1),
        cone=sf.discrete("cone", 0, 1),
    )
    return params.bind(
        {"foot_friction": (), "kd": ("FL_calf_joint", "FR_calf_joint"), "gyro_bias": ("x", "y", "z"), "cone": ()}
    )


def test_names_label_every_scalar_in_order():
    assert schema().names == (
        "foot_friction", "kd[FL_calf]", "kd[FR_calf]", "gyro_bias[x]", "gyro_bias[y]", "gyro_bias[z]", "cone",
    )  # fmt: skip
    assert label("FL_hip_joint") == "FL_hip"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0.001, 0.999), min_size=6, max_size=6), st.integers(0, 1))
def test_pack_and_unpack_are_inverse(shares, cone):
    params = schema()
    low, high = params.low[:6], params.high[:6]
    values = low + np.array(shares) * (high - low)
    e = params.unflatten(np.append(values, cone))
    again = params.unpack(params.pack(e))
    for name, value in e.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-9, atol=1e-12)


def test_pack_follows_its_equation_on_both_scales():
    params = schema()
    e = params.nominal_e(1) | {"foot_friction": np.array([0.6]), "gyro_bias": np.array([[0.05, 0.0, -0.05]])}
    z = params.pack(e)[0]
    s = np.log(0.6 / 0.3) / np.log(1.2 / 0.3)
    assert z[0] == pytest.approx(np.log(s / (1 - s)))
    assert z[3] == pytest.approx(np.log(0.75 / 0.25))
    assert z[4] == pytest.approx(0.0, abs=1e-12)


def test_any_unconstrained_vector_lands_inside_the_bounds():
    params = schema()
    z = np.random.default_rng(0).normal(0, 50, (500, params.d))
    v = params.flatten(params.unpack(z))
    assert (v >= params.low).all()
    assert (v <= params.high).all()
    assert set(np.unique(v[:, -1])) <= {0.0, 1.0}


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_saved_schema_loads_equal(tmp_path, suffix):
    params = sf.Params(
        a=sf.friction("FL|FR", low=0.1 + 0.2, high=1.0 / 3.0 + 1, source='said "so" \\ by √2'),
        b=sf.payload_mass("base", low=0, high=3, place=(0.1, 0.0, 0.2), nominal=1.0),
        c=sf.discrete("roughness", 0.0, 0.02, 0.05, seed=3),
        d=sf.com(("base", "head"), low=-0.1, high=0.1, axis="y", each=True),
    )
    params.save(tmp_path / f"params{suffix}")
    assert sf.Params.load(tmp_path / f"params{suffix}") == params


@pytest.mark.parametrize("suffix", [".toml", ".json", ".npz"])
def test_saved_e_loads_with_every_bit(tmp_path, suffix):
    e = {"m": np.random.default_rng(1).normal(size=5), "kd": np.random.default_rng(2).normal(size=(5, 12))}
    back = sf.load_e(sf.save_e(tmp_path / f"e{suffix}", e))
    assert all(np.array_equal(back[name], value) for name, value in e.items())


def test_every_kind_has_a_constructor_a_unit_a_group_and_a_sentence():
    assert set(CONSTRUCTORS) == set(KINDS)
    for name, kind in KINDS.items():
        assert kind.unit
        assert kind.group in GROUPS
        assert kind.fields
        assert kind.about.endswith(".")
        assert CONSTRUCTORS[name].__name__ == name


def test_quasi_direct_drive_reflects_the_rotor_through_the_gear():
    params = sf.quasi_direct_drive(rotor_inertia=1e-4, ratio=6.0)
    assert 0.5 * (params["armature"].low + params["armature"].high) == pytest.approx(36 * 1e-4)


MISTAKES = [
    (lambda: sf.friction(low=1.0, high=0.5), "low=1 must be a number not above high=0.5"),
    (lambda: sf.friction(low=-1.0, high=0.5), "leave what is physical"),
    (lambda: sf.friction(low=0.0, high=0.5, scale="log"), "a log scale needs low > 0"),
    (lambda: sf.friction(low=0.1, high=float("nan")), "must be a number"),
    (lambda: sf.friction(low=0.1, high=0.5, sizee=3), "'sizee' is not an option of friction"),
    (lambda: sf.patch_friction(low=0.1, high=0.5, sise=3), r"did you mean 'size'\?"),
    (lambda: sf.Param(kind="fricton", low=0, high=1), r"did you mean 'friction'\?"),
    (lambda: sf.Params(a=3), "is not a Param"),  # type: ignore[arg-type]
    (lambda: sf.Params.from_dict({"a": {"kind": "mass", "low": 1}}), "param 'a': a Param needs 'high'"),
    (lambda: sf.Params.from_dict({"a": {"kind": "mass", "low": "x", "high": 2}}), "low must be a number"),
    (lambda: sf.Params.from_dict({"a": {"kind": "mass", "low": 1, "high": 2, "axes": "x"}}), "'axes' is not a field"),
    (lambda: sf.Params(kd=sf.kd(low=0, high=1, each=True)).names, "bind it to a robot first"),
    (lambda: schema().check({"foot_fricton": 1.0}), r"did you mean 'foot_friction'\?"),
    (lambda: schema().check({"kd": np.ones((4, 3))}, 4), r"must have shape \(4, 2\), got \(4, 3\)"),
    (lambda: schema().check({"kd": np.full((4, 2), np.nan)}, 4), "not a finite number in world 0"),
    (lambda: schema().check({"foot_friction": -0.1}, 2), "allowed is 0"),
    (lambda: schema().check({"cone": 0.5}, 2), "allowed are 0, 1"),
    (lambda: schema().check({"cone": np.array([0.0, 1.0])}, 2), "one value per Sim"),
    (lambda: schema().check({"foot_friction": 2.0}, 1, within=True), "allowed is 0.3 .. 1.2"),
    (lambda: schema().flatten({"kd": np.ones((1, 2))}), "e lacks the params foot_friction"),
    (lambda: schema().unflatten(np.zeros((2, 3))), "expected 7 columns"),
    (lambda: schema().only("foot_frction"), "did you mean 'foot_friction'"),
]


@pytest.mark.parametrize(("mistake", "sentence"), MISTAKES, ids=[s[:30] for _, s in MISTAKES])
def test_a_mistake_gets_one_sentence(mistake, sentence):
    with pytest.raises(sf.InputError, match=sentence) as caught:
        mistake()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", '{"params": 3}', '{"params": {"a": 1}}', "[]", '{"e": {"a": "b"}}', "\x00"])
def test_damaged_files_get_one_sentence(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_text(text)
    for read in (sf.Params.load, sf.load_e):
        with pytest.raises(sf.InputError):
            read(path)
    with pytest.raises(sf.InputError, match="cannot read"):
        sf.Params.load(tmp_path / "absent.toml")


def test_toml_keeps_every_bit_of_a_number(tmp_path):
    from surefoot.params.toml import dumps

    values = [0.1 + 0.2, 1e-300, -1 / 3, 123456789.123456789]
    import tomllib

    assert tomllib.loads(dumps({"a": {"x": values, "y": {"z": True, "t": 'a "b"'}}}))["a"]["x"] == values
    assert json.loads(json.dumps(values)) == values
