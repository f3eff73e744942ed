"""Record a log, read it back, look at its timing, and read a stranger's CSV through a mapping.

Run: python examples/read_a_log.py
"""

import math
import tempfile
from pathlib import Path

from surefoot.logs import Recorder, info, info_table, read_log

MAPPING = """
title = "Pendulum on the desk"
source = "this example"
files = { data = "*.csv" }

[time]
column = "ms"
unit = "ms"

[[channels]]
name = "joint_pos"
unit = "deg"
from = "angle"
columns = ["hinge"]
"""


def main() -> None:
    folder = Path(tempfile.mkdtemp())

    with Recorder(folder / "run.mcap", robot="pendulum", meta={"kp": 20.0}) as recorder:
        recorder.declare("joint_pos", unit="rad", columns=["hinge"])
        recorder.declare("joint_pos_target", unit="rad", columns=["hinge"], role="u")
        for k in range(400):
            t = k / 200  # [s]
            recorder.write("joint_pos_target", t, [math.sin(2 * t)])
            if k % 50 != 7:  # the sensor misses a sample now and then
                recorder.write("joint_pos", t, [math.sin(2 * t - 0.1)])

    log = read_log(folder / "run.mcap")
    print(log)
    for row in info_table(info(folder / "run.mcap")):
        print(" ".join(cell.ljust(12) for cell in row).rstrip())

    late = log.resample(rate=100)  # both channels at the same times; the history says how
    print(late.meta["history"][-1])

    rows = "\n".join(f"{5 * k},{30 * math.cos(0.05 * k):.6f}" for k in range(200))
    (folder / "desk.csv").write_text(f"ms,angle\n{rows}\n")
    (folder / "desk.toml").write_text(MAPPING)
    desk = read_log(folder / "desk.csv", folder / "desk.toml")
    print(desk, f"starts at {desk['joint_pos'].values[0, 0]:.4f} rad")


if __name__ == "__main__":
    main()
