"""`weft service`."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from weftway._native import ScenarioError

from . import proxy, relay, tunnel
from .options import Verb
from .output import err, write

PROGRAMS: dict[str, Callable[..., None]] = {
    "proxy": proxy.command,
    "relay": relay.command,
    "tunnel": tunnel.command,
}


class Service(Verb):
    """A verb whose options are those of the program that it names. A shell that completes is told them as well."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)
        program = ctx.params.get("program")
        if ctx.resilient_parsing and program in PROGRAMS:
            params += [one for one in _as_command(program).params if one.param_type_name == "option"]
        return params


def programs(incomplete: str) -> list[str]:
    """For the shell."""
    return [name for name in PROGRAMS if name.startswith(incomplete)]


def command(
    context: typer.Context,
    program: Annotated[
        str,
        typer.Argument(
            metavar="proxy|relay|tunnel",
            help="Its options follow, as without `service`.",
            autocompletion=programs,
        ),
    ],
    install: Annotated[
        bool, typer.Option("--write", help="Writes the unit for this user's service manager, and starts nothing.")
    ] = False,
) -> None:
    """Prints a systemd unit that runs `weft proxy`, `relay` or `tunnel` with the given options, hardened and watched.

    For example: weft service relay --listen 4433 | sudo tee /etc/systemd/system/weft-relay.service
    """
    from weftway import service

    if program not in PROGRAMS:
        near = difflib.get_close_matches(program, PROGRAMS, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise ScenarioError(f"weft service runs {', '.join(PROGRAMS)}, not {program}{hint}")
    if program == "tunnel" and install:
        raise ScenarioError(
            "weft service tunnel --write: a tunnel needs root, and a user's service manager has no such rights"
        )
    options = list(context.args)
    given = _check(program, options)
    if not install:
        write(service.unit(program, options, of_user=False, files=_files(program, given)))
        return
    file = service.install(program, options)
    err.print(f"written: {file}")
    err.print(f"start it now and at each login: systemctl --user enable --now {file.stem}")
    err.print("keep it running without a login: loginctl enable-linger")


FILES = ("identity", "pair", "passwords", "classes", "config")
"""The options that name a file which the program reads when it starts."""


def _files(program: str, given: dict[str, Any]) -> dict[str, Path]:
    """The files that the program reads, by their options."""
    from weftway.identity import identity_file

    found = {name: Path(given[name]).absolute() for name in FILES if given.get(name)}
    if program == "relay":
        found.setdefault("identity", identity_file().absolute())
    return found


def _as_command(program: str) -> Any:
    """The program's own verb."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=Verb, context_settings={"help_option_names": []})(PROGRAMS[program])
    return typer.main.get_command(app)


def _check(program: str, options: list[str]) -> dict[str, Any]:
    """Refuses options that the program would refuse, and those that make no sense in a unit: the values of all."""
    given: dict[str, Any] = _as_command(program).make_context(f"weft {program}", list(options)).params
    pair = given.get("pair")
    if program == "proxy" and given.get("check") is not None:
        raise ScenarioError("--check starts nothing: it is no service")
    if given.get("restore"):
        raise ScenarioError("--restore starts nothing: it is no service")
    if program != "relay" and given.get("to") is None:
        raise ScenarioError(f"weft service {program} needs --to HOST:PORT, where `weft relay` listens")
    if program != "relay" and (pair is None or pair == "-"):
        raise ScenarioError(f"weft service {program} needs --pair FILE: nobody types the line of a service")
    if pair is not None and str(pair).startswith("weft1-"):
        raise ScenarioError("a pairing line is a password, and a unit is no secret: put it into a file, --pair FILE")
    for name in ("pair", "identity", "passwords"):
        if given.get(name) is not None and not Path(given[name]).exists():
            raise ScenarioError(f"--{name} {given[name]}: there is no such file")
    _check_values(program, given)
    return given


def _check_values(program: str, given: dict[str, Any]) -> None:
    """Has each option read as the program will read it."""
    from weftway import _native, classes, transfer, tunnel
    from weftway.status.watched import place_of_metrics

    _native.scheduler(given["scheduler"])
    _native.controller(given["cc"])
    if program == "relay":
        transfer.split_listening(given["listen"] or str(transfer.PORT))
        names = transfer.name_server(given["dns"]) if given["dns"] else None
        allow, deny = given["allow"] or [], given["deny"] or []
        _native.check_relaying(given["local"] or [], [], allow, deny, given["client"] or [], names)
    else:
        transfer.split(given["to"])
        classes.read(Path(given["classes"]) if given["classes"] else None)
        ports = [transfer.local_port(port) for port in given.get("listen") or []]
        transfer.read_passwords(Path(given["passwords"]) if given.get("passwords") else None)
        _native.check_relaying(given["local"] or [], ports, [], [], [], None)
    if program == "tunnel":
        tunnel.setting(
            transfer.OtherEnd(given["to"]), only=given["only"] or [], dns=given["dns"], device=given["device"]
        )
    if given["metrics"] is not None:
        place_of_metrics(given["metrics"])
