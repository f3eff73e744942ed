"""Use your own robot: any MJCF or URDF file, with the unknowns you doubt."""

import tempfile
from pathlib import Path

import numpy as np

import surefoot as sf

MODEL = """
<mujoco>
  <worldbody>
    <body name="arm">
      <joint name="shoulder" axis="0 1 0" damping="0.05" armature="0.01"/>
      <geom name="rod" type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.5"/>
    </body>
  </worldbody>
  <actuator><position name="shoulder" joint="shoulder" kp="20" kv="1" forcerange="-5 5"/></actuator>
</mujoco>
"""

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "arm.xml"
    path.write_text(MODEL)
    robot = sf.load(path)
    params = sf.Params(arm_mass=sf.mass("arm", low=0.3, high=0.8), delay=sf.command_delay(low=0.0, high=0.05))
    sim = sf.Sim(robot, params, worlds=5)
    sim.apply({"arm_mass": np.linspace(0.3, 0.8, 5), "delay": 0.02})
    for _ in range(100):
        sim.step(np.array([0.5]))
    for mass, angle in zip(sim.e["arm_mass"], sim.truth()["joint_pos"][:, 0], strict=True):
        print(f"arm of {mass:.3f} kg settles at {angle:.3f} rad when 0.5 rad is commanded")
