"""Real recordings: every set reads with the rates, units, lengths and gaps that its SOURCE.md states.

Sets may be partly or wholly absent: a test goes over what is there, and skips when nothing is.
"""

import numpy as np
import pytest

from surefoot.logs import bundled, read_log, read_logs

pytestmark = pytest.mark.data


def logs_in(data_dir, folder):
    if not (data_dir / folder).is_dir():
        pytest.skip(f"no {folder} among the recordings")
    return read_logs(data_dir / folder)


def rates(log):
    return {name: timing.rate for name, timing in log.timing().items()}


def test_go2_files_are_200_hz_with_12_named_joints(data_dir):
    logs = logs_in(data_dir, "go2_motor")
    for log in logs:
        assert log.robot == "go2"
        assert rates(log)["joint_pos"] == pytest.approx(200, rel=1e-3)
        assert log["joint_pos"].columns == log["joint_pos_target"].columns
        assert len(log["joint_pos"].columns) == 12
        assert log["joint_pos"].columns[:3] == ("FL_hip_joint", "FL_thigh_joint", "FL_calf_joint")
        assert log["joint_pos_target"].role == "u"
        assert log.meta["kp"] == 20
        assert log.timing()["joint_pos"].dropped == 0
        # Calves are bent backwards, thighs forwards: a wrong joint order would show here.
        assert (log["joint_pos"].pick([c for c in log["joint_pos"].columns if "calf" in c]).values < -0.5).all()
        steps = np.abs(np.diff(log["joint_pos"].column("FL_thigh_joint")))
        count = steps[(steps > 1.5e-5) & (steps < 4.5e-5)]  # one count of the encoder
        assert len(count) > 3
        assert np.median(count) == pytest.approx(3.0e-5, rel=0.05)
    assert {log.meta["kd"] for log in logs} <= {0.5, 1.5}


def test_emps_is_a_slide_at_1_khz_for_24_84_s(data_dir):
    logs = logs_in(data_dir, "emps")
    for log in logs:
        assert rates(log)["joint_pos"] == pytest.approx(1000, rel=1e-6)
        assert log.duration == pytest.approx(24.84)
        assert log["joint_pos"].unit == "m"
        assert log["voltage_target"].role == "u"
        assert log.meta["force_per_volt"] == pytest.approx(35.15065)
        assert (log.meta["kp"], log.meta["kv"]) == (160.18, 243.45)
        assert 0.2 < np.ptp(log["joint_pos"].values) < 0.3
    assert sum("force_pulse" in log for log in logs) == sum("PULSES" in str(log.meta["source"]) for log in logs)


def test_matlab_reader_agrees_with_scipy(data_dir):
    import scipy.io

    from surefoot.logs.matlab import mat_arrays

    files = sorted(data_dir.glob("emps/*.mat"))
    if not files:
        pytest.skip("no .mat files among the recordings")
    for file in files:
        ours, theirs = mat_arrays(file), scipy.io.loadmat(file)
        assert set(ours) == {name for name in theirs if not name.startswith("__")}
        for name, array in ours.items():
            np.testing.assert_array_equal(array, theirs[name])


def test_servo_pendulums_are_irregular_with_constants(data_dir):
    logs = [log for log in logs_in(data_dir, "bam_servos") if log.robot == "servo"]
    for log in logs:
        timing = log.timing()["joint_pos"]
        if log.meta["motor"] == "xl330":
            assert (log.meta["mass"], log.meta["length"], log.meta["supply"]) == (0.49, 0.1, 7.4)
            assert log.meta["kp"] in (100, 200, 400, 800)
            assert 1100 < timing.samples < 1520
            assert 3.4e-3 < timing.period < 5.5e-3
            assert log.duration == pytest.approx(6.0, abs=0.02)
            # 885 is full duty: the register is signed although the file stores it unsigned.
            assert np.abs(log["joint_load"].values).max() <= 900
            held = log["torque_enable"].values[:, 0] == 1
            if held.all() and log.meta["kp"] <= 200:
                error = log["joint_pos_target"].values - log["joint_pos"].values
                assert np.corrcoef(log["joint_load"].values[:, 0], error[:, 0])[0, 1] > 0.99
        assert set(np.unique(log["torque_enable"].values)) <= {0.0, 1.0}
        assert log["voltage"].unit == "V"


def test_bench_tables_of_servos_are_trials(data_dir):
    logs = [log for log in logs_in(data_dir, "bam_servos") if log.meta.get("axis") == "trial"]
    for log in logs:
        if "pulse" in log:
            assert (log["pulse"].values > 0).all()
            assert log["pulse"].values.max() < log.meta["pwm_period"] * 1e-6
        else:
            slope = np.polyfit(log["voltage_target"].values[:, 0], log["joint_vel"].values[:, 0], 1)[0]
            assert 0.3 < slope < 0.7


@pytest.mark.slow
def test_so101_motions_are_50_hz_from_two_files(data_dir):
    logs = logs_in(data_dir, "so101_sage")
    for log in logs:
        timing = log.timing()["joint_pos"]
        assert timing.rate == pytest.approx(1 / 0.02006, rel=2e-3)
        assert timing.longest < 0.0208
        assert timing.dropped == 0
        assert log["joint_pos"].columns[0] == "shoulder_pan"
        assert len(log["joint_torque"].columns) == 6
        assert len(log["joint_pos_target"]) == len(log["joint_pos"])
        assert (log["gripper_pos"].values >= -0.1).all()
        assert (log["gripper_pos"].values <= 1.1).all()
        steps = np.unique(np.abs(log["joint_vel"].values))
        assert np.allclose(steps / 0.0766990393942803, np.rint(steps / 0.0766990393942803), atol=1e-6)
    assert len({log.meta["motion"] for log in logs}) == len(logs)


def test_quanser_rollouts_have_their_folders_rate(data_dir):
    logs = logs_in(data_dir, "quanser_wam_simurlacra")
    for log in logs:
        folder = log.meta["experiment"]
        rate = 500 if "500Hz" in folder else 250
        assert rates(log)["joint_pos"] == pytest.approx(rate, rel=1e-6), folder
        u = log.u[0]
        assert len(u) == len(log["joint_pos"]) - 1
        if folder.startswith("qq"):
            assert log.robot == "qube"
            assert log["joint_pos"].columns == ("arm", "pendulum")
        elif folder.startswith("qcp"):
            assert log["joint_pos"].units == ("m", "rad")
        else:
            assert len(log["joint_pos"].columns) == 7
            assert log.duration == pytest.approx(20.0)
            target, q = log["joint_offset_target"].values, log["joint_pos"].values[1:]
            assert all(np.corrcoef(target[:, k], q[:, k])[0, 1] > 0.95 for k in range(7))
        if folder.startswith("qq_chrip"):
            assert np.abs(log["voltage_target"].values).max() == pytest.approx(1.5, abs=0.01)


@pytest.mark.slow
def test_velocities_are_derivatives_of_positions_in_every_set(data_dir):
    """A wrong unit or a wrong column would show as another slope or as no correlation."""
    seen = 0
    for folder in (
        "go2_motor",
        "quanser_wam_simurlacra",
        "double_pendulum_dfki",
        "acromonk",
        "tiago_figaroh",
        "bam_servos",
    ):
        if not (data_dir / folder).is_dir():
            continue
        for log in read_logs(data_dir / folder)[:12]:
            if "joint_vel" not in log or "joint_pos" not in log or log.meta.get("axis") == "trial":
                continue
            t = log["joint_pos"].t
            for column in log["joint_pos"].columns:
                q, v = log["joint_pos"].column(column), log["joint_vel"].column(column)
                if np.ptp(q) < 0.3 or np.abs(np.diff(q)).max() > 1:
                    continue
                # Sums over windows of 50 ms are robust against quantisation.
                n = max(2, int(0.05 / np.median(np.diff(t))))
                moved = q[n::n] - q[:-n:n][: len(q[n::n])]
                area = np.add.reduceat(0.5 * (v[1:] + v[:-1]) * np.diff(t), np.arange(0, len(t) - 1, n))[: len(moved)]
                slope = (moved @ area) / (area @ area)
                # Filters lag, and the velocities in the Go2 file are 10 to 16 % too large for its positions.
                assert slope == pytest.approx(1, abs=0.2), (folder, column, slope)
                seen += 1
    if not seen:
        pytest.skip("no set with positions and velocities")


def test_cube_tosses_are_metres_at_148_hz_one_log_each(data_dir):
    logs = logs_in(data_dir, "contactnets_cube")
    for log in logs:
        assert 80 <= len(log["quat"]) <= 442
        assert rates(log)["quat"] == pytest.approx(148)
        np.testing.assert_allclose(np.linalg.norm(log["quat"].values, axis=1), 1, atol=1e-3)
    assert len({log.meta["part"] for log in logs}) == len(logs)
    # The cube of 0.1048 m comes to rest on a face: its centre is then half a side above the table.
    rest = np.median([log["base_pos"].column("z")[-1] for log in logs])
    assert rest == pytest.approx(0.0515, abs=0.003)
    # In flight it falls with g: the velocity of the first samples says so in m/s.
    falls = [np.polyfit(log["base_vel_world"].t[:8], log["base_vel_world"].column("z")[:8], 1)[0] for log in logs]
    assert np.median(falls) == pytest.approx(-9.81, rel=0.15)


def test_crazyflie_rests_at_1_g_and_samples_at_1_khz(data_dir):
    logs = logs_in(data_dir, "crazyflie_arpl")
    for log in logs:
        timing = log.timing()["gyro"]
        assert timing.period == pytest.approx(989e-6, rel=0.01)
        assert 45 < log.duration < 51
        assert log["rotor_target"].values.min() >= 0
        assert log["rotor_target"].values.max() <= 1
        assert np.linalg.norm(log["accel"].values[:200].mean(axis=0)) == pytest.approx(9.81, rel=0.05)
        assert np.abs(log["gyro"].values[:200].mean(axis=0)).max() < 0.1


def test_dart_car_has_two_clocks_where_there_is_motion_capture(data_dir):
    logs = logs_in(data_dir, "dart_car")
    for log in logs:
        assert rates(log)["car_command"] == pytest.approx(10, rel=0.02)
        if "base_pos" in log:
            assert log["base_pos"].clock == "vicon"
            assert log["gyro"].clock == "car"
            assert rates(log)["base_pos"] == pytest.approx(100, rel=0.02)
            left_out = log.meta["rows_left_out"]["gyro"]
            assert left_out["rows"] + len(log["gyro"]) == left_out["of"] == len(log["base_pos"])
            assert log["gyro"].t[0] > 0
        assert np.abs(log["car_command"].values).max() <= 1.01


@pytest.mark.slow
def test_double_pendulum_rates_and_torques(data_dir):
    logs = logs_in(data_dir, "double_pendulum_dfki")
    for log in [log for log in logs if log.robot]:
        if str(log.meta.get("run", "")).startswith("sys_id"):
            timing = log.timing()["joint_pos"]
            assert timing.period == pytest.approx(0.002, rel=1e-3)
            assert timing.longest < 3.8e-3
            assert log.duration == pytest.approx(10, abs=0.1) or log.duration == pytest.approx(6, abs=0.1)
        # The measured torque follows the command on its own: friction compensation is inside the command.
        command, measured = log["joint_torque_target"].values, log["joint_torque"].values
        compensation = log["friction_compensation"].values
        if np.abs(compensation).max() > 0:
            alone = np.sum((measured[1:] - command[:-1]) ** 2)
            added = np.sum((measured[1:] - command[:-1] - compensation[:-1]) ** 2)
            assert alone < 1.01 * added
    for log in [log for log in logs if "score" in log]:
        assert len(log.meta["labels"]) == len(log["score"])
        assert 0 <= np.nanmin(log["score"].values) <= np.nanmax(log["score"].values) <= 1


def test_xsens_files_make_one_log_of_counts(data_dir):
    (log,) = logs_in(data_dir, "imu_xsens")
    assert log["accel_raw"].unit == "count"
    assert rates(log)["accel_raw"] == pytest.approx(100, rel=1e-3)
    assert log.timing()["gyro_raw"].dropped == 0
    assert (log["accel_raw"].values == np.rint(log["accel_raw"].values)).all()
    # It starts at rest: one axis feels gravity, which is many times the noise in counts.
    rest = log["accel_raw"].values[:2000]
    assert rest.std(axis=0).max() < 50


def test_simple_pendulum_reads_with_and_without_a_plan(data_dir):
    logs = logs_in(data_dir, "simple_pendulum_dfki")
    for log in logs:
        assert ("reference_pos" in log) == (len(log.meta["source"]["files"]) == 2)
        assert 45 < rates(log)["joint_pos"] < 1100
        assert np.abs(log["joint_pos"].values).max() < 30


def test_acromonk_keeps_declared_gaps_and_its_plans_clock(data_dir):
    for log in logs_in(data_dir, "acromonk"):
        assert not log["joint_pos"].nan
        if log["reference_pos"].clock == "plan":
            assert rates(log)["reference_pos"] == pytest.approx(1000, rel=0.01)
            assert log.u == ()
            continue
        assert log["reference_pos"].nan
        # After the limits and a lag, the motor does what it is told.
        command, torque = log["joint_torque_target"].values[:, 0], log["joint_torque"].values[:, 0]
        assert max(np.corrcoef(command[: len(command) - k], torque[k:])[0, 1] for k in range(5)) > 0.8


def test_cassie_landings_are_2_khz_for_50_ms(data_dir):
    for log in logs_in(data_dir, "cassie_impact"):
        assert len(log["quat"]) == 100
        assert log.timing()["quat"].period == pytest.approx(5e-4, rel=0.01)
        assert log.duration == pytest.approx(0.05, abs=0.002)
        np.testing.assert_allclose(np.linalg.norm(log["quat"].values, axis=1), 1, atol=1e-6)
        assert not log["joint_vel"].pick(["ankle_spring_joint_left", "ankle_spring_joint_right"]).values.any()
        assert log["joint_torque"].unit == "N·m"
        # The base falls: its velocity is the derivative of its height.
        z, v, t = log["base_pos"].column("z"), log["base_vel_world"].column("z"), log["base_pos"].t
        assert z[-1] - z[0] == pytest.approx(np.sum(0.5 * (v[1:] + v[:-1]) * np.diff(t)), abs=5e-3)


def test_impacts_are_trials_with_published_restitution(data_dir):
    logs = logs_in(data_dir, "mcube_ellipse_impacts")
    for log in logs:
        assert log.meta["axis"] == "trial"
        if "flags" in log and len(log["flags"]) == 2000:
            clean = ~(log["flags"].values > 0).any(axis=1)
            assert clean.sum() == 1718
            n = log["normal_jacobian"].values
            before, after = ((n * log[name].values).sum(axis=1) for name in ("velocity_before", "velocity_after"))
            assert np.median(-after[clean] / before[clean]) == pytest.approx(0.544, abs=0.01)


def test_staubli_is_motor_side_at_5_khz(data_dir):
    (log,) = logs_in(data_dir, "staubli_tx40")
    assert rates(log)["motor_pos"] == pytest.approx(5000)
    assert log["motor_pos"].values.shape[1] == 6
    assert len(log["motor_torque"]) == len(log["motor_pos"])
    # Divided by the gear the range is one of joints, not of motors.
    joint = np.ptp(log["motor_pos"].values / log.meta["gear"], axis=0)
    assert (joint < 7).all()


def test_tiago_has_a_slide_and_seven_hinges_at_100_hz(data_dir):
    (log,) = logs_in(data_dir, "tiago_figaroh")
    assert log["joint_pos"].units == ("m",) + ("rad",) * 7
    assert rates(log)["joint_pos"] == pytest.approx(100, rel=1e-3)
    assert np.abs(log["joint_effort"].pick(["arm_5_joint", "arm_6_joint", "arm_7_joint"]).values).max() < 0.05


def test_paired_success_rates_are_a_table_of_trials(data_dir):
    (log,) = logs_in(data_dir, "simpler_env_paired")
    rate = log["success_rate"]
    assert rate.columns == ("real", "sim")
    assert len(log.meta["labels"]) == len(rate)
    assert (rate.values >= 0).all()
    assert (rate.values <= 1).all()
    row = log.meta["labels"].index("google_robot_pick_coke_can/rt-2-x")
    assert rate.values[row].tolist() == [0.907, 0.787]


@pytest.mark.slow
def test_the_whole_folder_reads_and_every_log_keeps_its_source(data_dir):
    folders = [path for path in sorted(data_dir.iterdir()) if path.is_dir()]
    mappings = set()
    for folder in folders:
        for log in read_logs(folder)[:3]:
            source = log.meta["source"]
            mappings.add(source["mapping"])
            assert all(len(digest) == 64 for digest in source["files"].values())
    assert mappings <= set(bundled())
    assert mappings


@pytest.mark.parametrize("suffix", [".mcap", ".npz", ".csv"])
def test_a_real_log_survives_every_format(data_dir, tmp_path, suffix):
    files = sorted(data_dir.glob("bam_servos/xl330_raw/*.json.gz"))
    if not files:
        pytest.skip("no XL330 logs among the recordings")
    log = read_log(files[0])
    assert read_log(log.save(tmp_path / f"a{suffix}")) == log
