"""Two contracts that differ are told apart in words; two that do not, are not."""

from dataclasses import fields, replace

import pytest

from surefoot.contract import Action, Contract, Group, Memory, Term
from test_contract import JOINTS, small, walking


def with_term(contract: Contract, name: str, **changes) -> Contract:
    policy = contract.group("policy")
    terms = tuple(replace(t, **changes) if t.name == name else t for t in policy.terms)
    return with_policy(contract, terms=terms, normaliser=None)


def with_policy(contract: Contract, **changes) -> Contract:
    policy = replace(contract.group("policy"), **changes)
    return replace(contract, groups=(policy, *(g for g in contract.groups if g.name != "policy")))


def swapped(names, *pairs):
    names = list(names)
    for a, b in pairs:
        i, j = names.index(a), names.index(b)
        names[i], names[j] = names[j], names[i]
    return tuple(names)


A = with_policy(walking(), normaliser=None)
DEEP = with_policy(walking(history=3), normaliser=None)
HIPS = ("FL_hip_joint", "FR_hip_joint")
LEGS = [(f"FL_{part}_joint", f"FR_{part}_joint") for part in ("hip", "thigh", "calf")]


def quat(columns):
    return small(
        groups=(Group(name="policy", terms=(Term(source="quat", columns=columns),)),), sensor_channels=("quat",)
    )


def one_value(values, joint, value):
    return tuple(value if name == joint else old for name, old in zip(JOINTS, values, strict=True))


CASES = {
    "another robot": (A, replace(A, robot="go1"), "robot is 'go1' there, 'go2' here"),
    "another rate": (A, replace(A, control_dt=0.01), "control_dt 0.02 -> 0.01 s (50 -> 100 Hz)"),
    "no inner rate": (A, replace(A, pd_rate=None), "pd_rate is not declared there, 500 Hz here"),
    "hips swapped in a term": (
        A,
        with_term(A, "joint_vel", columns=swapped(JOINTS, HIPS)),
        "policy term 'joint_vel': columns are permuted: FL_hip and FR_hip swapped",
    ),
    "legs swapped in a term": (
        A,
        with_term(A, "joint_vel", columns=swapped(JOINTS, *LEGS)),
        "policy term 'joint_vel': columns are permuted: FL_* and FR_* swapped",
    ),
    "order turned round": (
        A,
        replace(A, joints=JOINTS[1:] + JOINTS[:1]),
        "joints are permuted: the order is FL_thigh, FL_calf, FR_hip,",
    ),
    "kd of one joint": (A, replace(A, kd=one_value(A.kd, "FR_calf_joint", 1.0)), "kd of FR_calf 0.5 -> 1"),
    "kp of all": (A, replace(A, kp=40.0), "kp 20 -> 40"),
    "gains not declared": (A, replace(A, kp=None), "kp is declared only here"),
    "torque limits": (
        A,
        replace(A, torque_limit=tuple(2 * t for t in A.torque_limit)),
        "(all by the factor 2)",
    ),
    "pose rounded": (replace(A, pose=0.12345), replace(A, pose=0.123), "(rounded to 3 decimals there)"),
    "joint limits": (A, replace(A, position_limits=(-2.0, 3.0)), "position_limits (low) -3 -> -2"),
    "history turned": (
        DEEP,
        with_policy(DEEP, order="newest-first"),
        "policy history is newest-first there, oldest-first here",
    ),
    "history by step": (
        DEEP,
        with_policy(DEEP, stack="step"),
        "policy history is stacked step by step there, term by term here",
    ),
    "history longer": (A, with_term(A, "gyro", history=5), "policy term 'gyro': history is 5 steps there, 1 here"),
    "gravity in world": (
        A,
        with_term(A, "gravity", frame="world"),
        "policy term 'gravity': is in the world frame there, in the body frame here",
    ),
    "angle as a turn": (
        A,
        with_term(A, "joint_pos", turn=True, scale=1.0, clip=None, trained=None),
        "policy term 'joint_pos': gives sine and cosine there, the angle itself here",
    ),
    "scale of one cosine": (
        with_term(A, "joint_pos", turn=True, scale=1.0, clip=None, trained=None),
        with_term(A, "joint_pos", turn=True, scale=(1.0, 0.5, *(1.0,) * 22), clip=None, trained=None),
        "policy term 'joint_pos': scale of cos FL_hip 1 -> 0.5",
    ),
    "scale of gyro": (A, with_term(A, "gyro", scale=1.0), "policy term 'gyro': scale 0.25 -> 1"),
    "sign of one joint": (
        A,
        with_term(A, "joint_vel", scale=(-0.05, *(0.05,) * 11)),
        "scale of FL_hip 0.05 -> -0.05 (the sign is opposite)",
    ),
    "scale in degrees": (
        A,
        with_term(A, "gyro", scale=0.25 * 57.29577951308232),
        "(a factor of 180/π: degrees there, radians here?)",
    ),
    "unit": (A, with_term(A, "gyro", unit="deg/s"), "policy term 'gyro': unit is deg/s there, rad/s here"),
    "offset": (A, with_term(A, "joint_pos", offset=0.0), "policy term 'joint_pos': offset of FL_hip -0.1 -> 0"),
    "clip": (A, with_term(A, "joint_pos", clip=None), "policy term 'joint_pos': clip is declared only here"),
    "delay": (A, with_term(A, "gravity", delay=0.0), "policy term 'gravity': delay 10 -> 0 ms"),
    "training range": (A, with_term(A, "joint_vel", trained=(-2.0, 1.5)), "training range (low) -1.5 -> -2"),
    "another source": (A, with_term(A, "gravity", source="gyro"), "reads 'gyro' there, 'gravity' here"),
    "11 joints": (
        A,
        replace(
            A,
            joints=tuple(j for j in JOINTS if j != "RL_calf_joint"),
            groups=(Group(name="policy", terms=(Term(source="gyro"),)),),
            action=Action(joints=JOINTS[:3]),
            pose=0.0,
            torque_limit=1.0,
            kp=20.0,
            kd=0.5,
            rate_limit=30.0,
            position_limits=None,
        ),
        "12 joints here against 11 there: RL_calf missing there",
    ),
    "a term missing": (
        A,
        with_policy(A, terms=A.group("policy").terms[1:]),
        "policy term 'gyro' is missing there",
    ),
    "a term more": (with_policy(A, terms=A.group("policy").terms[1:]), A, "policy term 'gyro' is only there"),
    "terms permuted": (
        A,
        with_policy(A, terms=A.group("policy").terms[1::-1] + A.group("policy").terms[2:]),
        "policy terms are permuted: gyro and gravity swapped",
    ),
    "normaliser dropped": (walking(), A, "policy normaliser is missing there"),
    "normaliser elsewhere": (
        walking(),
        with_policy(walking(), normaliser=replace(walking().group("policy").normaliser, by="builder")),
        "policy normaliser is applied by the builder there, by the network here",
    ),
    "normaliser mean": (
        walking(),
        with_policy(walking(), normaliser=replace(walking().group("policy").normaliser, mean=(-1.0,) * 45)),
        "policy normaliser mean of gyro[y]",
    ),
    "normaliser eps": (
        walking(),
        with_policy(walking(), normaliser=replace(walking().group("policy").normaliser, eps=1e-5)),
        "policy normaliser eps 1e-08 -> 1e-05",
    ),
    "normaliser limit": (
        walking(),
        with_policy(walking(), normaliser=replace(walking().group("policy").normaliser, limit=None)),
        "policy normaliser limit is None there, 10.0 here",
    ),
    "quaternion order": (
        quat(("w", "x", "y", "z")),
        quat(("x", "y", "z", "w")),
        "policy term 'quat': quaternion is x,y,z,w there, w,x,y,z here",
    ),
    "action order": (
        A,
        replace(A, action=replace(A.action, joints=swapped(JOINTS, HIPS))),
        "action joints are permuted: FL_hip and FR_hip swapped",
    ),
    "action scale": (A, replace(A, action=replace(A.action, scale=0.5)), "action scale 0.25 -> 0.5"),
    "action kind": (
        A,
        replace(A, action=replace(A.action, kind="joint_torque_target")),
        "action is a joint_torque_target there, a joint_pos_target here",
    ),
    "action clip": (A, replace(A, action=replace(A.action, clip=None)), "action clip is declared only here"),
    "command range": (
        A,
        replace(A, commands=(replace(A.commands[0], high=2.0), *A.commands[1:])),
        "command 'vx': [-1, 1] -> [-1, 2]",
    ),
    "command order": (
        A,
        replace(A, commands=(A.commands[1], A.commands[0], A.commands[2])),
        "commands are permuted: vx and vy swapped",
    ),
    "command unit": (
        A,
        replace(A, commands=(replace(A.commands[0], unit="km/h"), *A.commands[1:])),
        "command 'vx': unit is km/h there, m/s here",
    ),
    "memory": (A, replace(A, memory=(Memory(name="h", shape=(1, 32)),)), "shape is (1, 32) there, (1, 64) here"),
    "range of e": (A, replace(A, e=A.e[:1]), "training range of e: 'foot_friction' is missing there"),
    "group missing": (A, replace(A, groups=A.groups[:1]), "group 'critic' is missing there"),
    "sensor more": (
        A,
        replace(A, sensor_channels=(*A.sensor_channels, "accel")),
        "sensor channel 'accel' is only there",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_difference_names(case):
    here, there, words = CASES[case]
    found = here.difference(there)
    assert any(words in sentence for sentence in found), found
    assert all("\n" not in sentence for sentence in found)


@pytest.mark.parametrize(
    "case", ["kd of one joint", "angle as a turn", "unit", "scale of gyro", "history turned", "another rate"]
)
def test_one_fault_gives_one_sentence(case):
    here, there, _ = CASES[case]
    assert len(here.difference(there)) == 1


@pytest.mark.parametrize("case", CASES)
def test_difference_is_empty_only_between_equals(case):
    here, there, _ = CASES[case]
    assert here.difference(here) == []
    assert here.hash != there.hash
    assert there.difference(here)


def test_values_follow_their_joint_when_only_the_order_differs():
    there = replace(A, joints=swapped(JOINTS, ("FL_hip_joint", "FL_calf_joint")))
    values = {name: dict(zip(JOINTS, getattr(A, name), strict=True)) for name in ("pose", "torque_limit")}
    there = replace(there, **{name: tuple(by[j] for j in there.joints) for name, by in values.items()})
    assert A.difference(there) == ["joints are permuted: FL_hip and FL_calf swapped"]


def test_every_field_of_a_contract_is_compared():
    others = [there for _, there, _ in CASES.values()]
    others += [replace(A, **{name: 0.7}) for name in ("clock_period", "timestep", "rate_limit", "speed_limit", "rest")]
    for name in {f.name for f in fields(Contract)} - {"version"}:
        assert any(getattr(A, name) != getattr(other, name) and A.difference(other) for other in others), name
    for other in others[len(CASES) :]:
        assert len(A.difference(other)) == 1
