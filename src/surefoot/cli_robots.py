"""`surefoot params ...` and `surefoot robot ...`."""

from pathlib import Path

from surefoot.cli_words import AnyRobot, File, RobotName, Source, Target, answer, params_of, table, tell


def params_check(robot: RobotName, /, *, params: File = None, json: bool = False) -> int:
    """Move each Param from low to high alone and print how much the motion changes against the noise floor.

    A Param without effect is a defect: it is named, and the exit code is 1.

    Args:
        robot: name in the library (see `robot list`), folder, robot file or model file.
        params: .toml or .json file with the Params; the robot file's own when left out.
        json: print a list of effects as JSON.
    """
    from surefoot.robots import load
    from surefoot.sim.check import check_params

    loaded = load(robot)
    chosen = params_of(loaded, params)
    if not chosen:
        tell(f"{loaded.name} has no Params: give some with --params FILE")
        return 0
    effects = check_params(loaded, chosen, tell=lambda what: tell(f"{loaded.name}: {what}"))
    inert = [effect for effect in effects if effect.inert]
    titles = ("param", "low", "high", "unit", "change", "floor", "ratio", "channel", "")

    def text() -> str:
        rows = [
            (
                x.name, f"{x.low:g}", f"{x.high:g}", x.unit, f"{x.change:.3g}", f"{x.floor:.2g}", f"{x.ratio:.3g}",
                x.channel, "INERT" if x.inert else "diverges at a bound" if x.diverged else "",
            )
            for x in effects
        ]  # fmt: skip
        return table([titles, *rows])

    answer([{**vars(x), "ratio": x.ratio} for x in effects], text, json)
    if inert:
        tell(
            f"{', '.join(x.name for x in inert)}: no effect on {loaded.name}; correct 'of' or the bounds, or remove it"
        )
    return 1 if inert else 0


def params_list(robot: AnyRobot = None, /, *, json: bool = False) -> int:
    """List the kinds of Params there are, or the Params in a robot's file.

    Args:
        robot: robot whose Params to list; every kind when left out.
        json: print JSON.
    """
    if robot is None:
        from surefoot.params import KINDS

        kinds = [
            {
                "kind": k.name, "unit": k.unit, "group": k.group, "of": k.target, "structural": k.structural,
                "about": k.about,
            }
            for k in KINDS.values()
        ]  # fmt: skip
        answer(kinds, lambda: table([tuple(kinds[0]), *(tuple(k.values()) for k in kinds)]), json)
        return 0
    from surefoot.robots import load

    params = load(robot).params
    titles = ("param", "kind", "of", "low", "high", "unit", "scale", "source")

    def text() -> str:
        rows = [
            (
                n, p.kind, p.of if isinstance(p.of, str) else ", ".join(p.of), f"{p.low:g}", f"{p.high:g}", p.unit,
                p.scale, p.source,
            )
            for n, p in params.items()
        ]  # fmt: skip
        return table([titles, *rows])

    answer(params.to_dict(), text, json)
    return 0


def robot_list(*, json: bool = False) -> int:
    """List the robots that come with surefoot.

    Args:
        json: print JSON.
    """
    from surefoot.robots import available, load

    robots = [load(name) for name in available()]
    rows = [
        {"name": r.name, "title": r.title, "joints": len(r.joints), "motors": len(r.actuators), "params": len(r.params)}
        for r in robots
    ]
    answer(rows, lambda: table([tuple(rows[0]), *(tuple(map(str, row.values())) for row in rows)]), json)
    return 0


def robot_check(path: RobotName, /, *, json: bool = False) -> int:
    """Examine a robot's files: masses and inertias, limits, names, gains, time step, efforts, Params, meshes.

    The exit code is 1 when something makes the simulation wrong.

    Args:
        path: name in the library, folder, robot file (.toml) or model file (.xml, .urdf).
        json: print a list of findings as JSON.
    """
    from surefoot.errors import InputError
    from surefoot.robots import available, check

    if not Path(path).exists() and path not in available():
        from surefoot.errors import did_you_mean

        raise InputError(f"{path!r} is no file, folder or robot of the library {did_you_mean(path, available())}")
    findings = check(path)
    lines = [str(finding) for finding in findings] or [f"{path}: nothing found"]
    answer([vars(finding) for finding in findings], lambda: "\n".join(lines), json)
    return 1 if any(finding.level == "error" for finding in findings) else 0


def robot_strip(model: Source, out: Target, /, *, json: bool = False) -> int:
    """Write a model without the meshes that only cost time, and prove that its dynamics are the same.

    Args:
        model: MJCF file.
        out: file to write; beside the original, so that the meshes that stay are found.
        json: print what was done as JSON.
    """
    from surefoot.robots import strip_meshes

    done = strip_meshes(model, out)
    answer(
        vars(done),
        lambda: (
            f"{done.file}: {done.removed} mesh geoms removed, {done.kept} kept, {done.saved / 1e6:.1f} MB of files no "
            f"longer needed, dynamics equal to {done.difference:.1g}"
        ),
        json,
    )
    return 0
