"""Envelopes of the body: tilt, height, contact; and how much torque the motors' temperature allows."""

import math
from typing import Any

import numpy as np

from surefoot.contract.channels import label
from surefoot.contract.contract import Contract
from surefoot.deploy.ladder import Finding
from surefoot.deploy.limits import FULL
from surefoot.deploy.readings import Readings
from surefoot.deploy.settings import SafetySettings


class Envelope:
    """Looks at the newest sample.

    Attributes:
        tilt: angle between the body's z axis and up [rad]; nan where it is not read.
        derate: share of its torque each joint may use, (joints,), or 1.0 where no temperature is read:
            1 below temperature_warn, falling linearly to derate_floor at temperature_high.
    """

    def __init__(self, contract: Contract, settings: SafetySettings):
        self._contract, self._s = contract, settings
        self.tilt = math.nan
        self.derate: Any = FULL
        self._air_since: float | None = None
        self._found: list[Finding] = []

    def look(self, now: float, readings: Readings) -> list[Finding]:
        """Conditions at this step; those of the last sample stay until the next."""
        if not readings.fresh or not readings.good:
            return self._found
        s, parts, y, found = self._s, readings.parts, readings.y, []
        self.tilt = _tilt(y, parts)
        if s.tilt_limit is not None and self.tilt > s.tilt_limit:
            found.append(Finding("tilt", "gravity", self.tilt, s.tilt_limit))
        if "base_pos" in parts:
            height = float(y[parts["base_pos"]][2])
            if s.height_low is not None and height < s.height_low:
                found.append(Finding("height", "base_pos", height, s.height_low))
            elif s.height_high is not None and height > s.height_high:
                found.append(Finding("height", "base_pos", height, s.height_high))
        if "foot_force" in parts:
            self._contact(now, y[parts["foot_force"]].tolist(), found)
        if "joint_temperature" in parts:
            self._heat(y[parts["joint_temperature"]], found)
        self._found = found
        return found

    def _contact(self, now: float, force: list[float], found: list[Finding]) -> None:
        s = self._s
        if s.foot_force_high is not None:
            most = max(force)
            if most > s.foot_force_high:
                found.append(Finding("contact", "force on one foot [N]", most, s.foot_force_high))
        if s.foot_force_low is not None:
            total = sum(force)
            if not total < s.foot_force_low:
                self._air_since = None
            elif self._air_since is None:
                self._air_since = now
            elif now - self._air_since > s.air_time:
                found.append(Finding("contact", "all feet in the air [s]", now - self._air_since, s.air_time))

    def _heat(self, degrees: np.ndarray, found: list[Finding]) -> None:
        s = self._s
        if not np.count_nonzero(degrees > s.temperature_warn):
            self.derate = FULL
            return
        most = float(degrees.max())
        if math.isfinite(most):
            share = (s.temperature_high - degrees) / max(s.temperature_high - s.temperature_warn, 1e-9)
            self.derate = s.derate_floor + (1.0 - s.derate_floor) * np.minimum(np.maximum(share, 0.0), 1.0)
            if most > s.temperature_high:
                joint = label(self._contract.joints[int(np.argmax(degrees))])
                found.append(Finding("temperature", joint, most, s.temperature_high))


def _tilt(y: np.ndarray, parts: dict[str, slice]) -> float:
    """Angle between the body's z axis and up [rad] from gravity, else from quat; nan without either."""
    if "gravity" in parts:
        gx, gy, gz = y[parts["gravity"]].tolist()
        size = math.sqrt(gx * gx + gy * gy + gz * gz)
        return math.acos(min(max(-gz / size, -1.0), 1.0)) if 0.0 < size < math.inf else math.nan
    if "quat" in parts:
        _, qx, qy, _ = y[parts["quat"]].tolist()
        return math.acos(min(max(1.0 - 2.0 * (qx * qx + qy * qy), -1.0), 1.0)) if math.isfinite(qx + qy) else math.nan
    return math.nan
