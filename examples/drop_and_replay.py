"""Draw worlds from p(e), record one, and see which e explains its log best.

Run it with `python examples/drop_and_replay.py`; it takes a few seconds.
"""

import numpy as np

import surefoot as sf
from surefoot.sim.record import Recording

sim = sf.Sim(sf.load("servo"), worlds=1, noise=False)
truth = sim.params.prior().sample(1, 7)
sim.apply(truth)
sim.reset()

recording = Recording(sim)
for step in range(400):
    t = step * sim.control_dt
    u = np.array([0.8 * np.sin(2 * np.pi * (0.5 + 0.8 * t) * t)])
    recording.add(sim.sense(), u)
    sim.step(u)
log = recording.log()

candidates = sim.params.prior().sample(1000, 0)
replay = sim.replay(log, candidates)
score = np.sqrt((replay.gap("joint_pos") ** 2).mean(axis=(1, 2)))
best = int(score.argmin())
print(
    f"{len(score)} candidates replayed; gap {1000 * np.median(score):.1f} mrad in the median, {1000 * score[best]:.1f} mrad for the best"
)
for name in sim.params:
    print(
        f"  {name:<14} truth {truth[name][0]:8.4g}   best candidate {candidates[name][best]:8.4g} {sim.params[name].unit}"
    )
