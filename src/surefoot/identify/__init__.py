"""identify: from logs to p(e | logs), honest about what it does not know. `surefoot.identify(sim, logs)` is the function."""

import sys
import types
from typing import Any

from surefoot.identify.another import Foreseen, another_robot, foresee
from surefoot.identify.fit import Confounded, Fit, Misfit, Run, Score, load_fit
from surefoot.identify.identify import identify
from surefoot.identify.inverse import identify_inverse
from surefoot.identify.inverse_both import identify_both
from surefoot.identify.residuals import Problem
from surefoot.identify.samples import Cloud, compare, log_likelihood_of, sample_posterior
from surefoot.identify.sensor_noise import SensorFit, fit_encoder_noise, fit_imu_noise, fit_sensor_noise
from surefoot.identify.sensor_scale import accel_scale, gyro_scale
from surefoot.identify.solve import solve
from surefoot.identify.spread import SpreadFit, fit_spread, spread_of_logs
from surefoot.identify.structure import search
from surefoot.identify.structure_servo import ServoBench
from surefoot.identify.structure_sim import SimBench
from surefoot.identify.windows import Windows, cut

__all__ = [
    "Cloud", "Confounded", "Fit", "Foreseen", "Misfit", "Problem", "Run", "Score", "SensorFit", "ServoBench", "SimBench", "SpreadFit",
    "Windows", "accel_scale", "another_robot", "compare", "cut", "fit_encoder_noise", "fit_imu_noise", "fit_sensor_noise", "fit_spread",
    "foresee", "gyro_scale", "identify", "identify_both", "identify_inverse", "load_fit", "log_likelihood_of", "sample_posterior", "search",
    "solve", "spread_of_logs",
]  # fmt: skip


class _Verb(types.ModuleType):
    """A package that is also the function of its name: `sf.identify` is both."""

    def __call__(self, *args: Any, **named: Any) -> Fit:
        return identify(*args, **named)


sys.modules[__name__].__class__ = _Verb
