"""Pictures of README: `./weft python tools/pictures.py` writes them. That of a report needs Chromium and pytest.

The moving picture is one download under two schedulers: rates of the paths in seed 0 of `scenarios/wifi-lte.toml`. It
begins and ends whole. That of the report is its two runs side by side, after README's first command.
"""

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from weftway._native import Scenario
from weftway.runs import plan
from weftway.runs.backends import SIM
from weftway.scenario import HOME

sys.path.insert(0, str(HOME / "tests/python"))
from browser import Browser, found

FILE = HOME / "docs/pictures/download.svg"
REPORT = HOME / "docs/pictures/report.png"
COMPARE = (
    "compare",
    str(HOME / "scenarios/wifi-lte.toml"),
    "--scheduler",
    "earliest-delivery,min-rtt,round-robin,blest",
)
LANES = 3
"""Charts of each run that the picture of the report has."""
SCENARIO = HOME / "scenarios/wifi-lte.toml"
SCHEDULERS = ("earliest-delivery", "blest")

LEFT, WIDTH, HEIGHT, TOP, APART = 24, 712, 84, 54, 136
"""Place of the first strip in the picture, and from one strip to the next."""

HIGHEST = 36.0
"""Rate at the top of a strip, in Mbit/s."""

SPEED, HOLD_S = 2.0, 3.0
"""Pace of the picture against real time, and how long all of it is shown before."""

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 330" role="img" aria-labelledby="title">
  <title id="title">The same download of 20 MB over Wi-Fi and LTE under two schedulers: {told}</title>
  <style>
    svg {{ --page: #ffffff; --ink: #1c2429; --soft: #5d6a72; --line: #b9c2c7; --wifi: #1f7a8c; --lte: #e09a2b }}
    @media (prefers-color-scheme: dark) {{
      svg {{ --page: #14191c; --ink: #e6ebee; --soft: #9aa7af; --line: #47535a; --wifi: #4fb3c6; --lte: #f0b558 }}
    }}
    text {{ font: 14px system-ui, sans-serif; fill: var(--ink) }}
    .soft {{ fill: var(--soft); font-size: 12px }}
    .wifi {{ fill: var(--wifi) }} .lte {{ fill: var(--lte) }} .line {{ stroke: var(--line) }}
    @media (max-width: 480px) {{ text {{ font-size: 24px }} .soft {{ font-size: 22px }} .wide {{ display: none }} }}
  </style>
  <rect width="760" height="330" rx="8" fill="var(--page)"/>
  <rect x="440" y="14" width="12" height="12" class="wifi"/><text x="458" y="25" class="soft">Wi-Fi</text>
  <rect x="520" y="14" width="12" height="12" class="lte"/><text x="538" y="25" class="soft">LTE</text>
  <text x="584" y="25" class="soft wide">rate of each link over time</text>
"""


def runs() -> list[tuple[str, dict[str, Any], float]]:
    """Scheduler, timeline and completion time in s of each run."""
    scenario = Scenario.load(str(SCENARIO), [])
    found = []
    for job in plan.plan(scenario, scheduler=",".join(SCHEDULERS), seed="0..1", backend="sim").jobs:
        text = SIM.timeline(job, None)
        assert text is not None, "every simulated run has a timeline"
        read = json.loads(text)
        ends = max(at for rates in read["mbps"] for at, rate in enumerate(rates) if rate)
        found.append((job.scheduler.name, read, (ends + 1) * read["step_ms"] / 1000))
    return found


def strip(at: int, name: str, read: dict[str, Any], ends_s: float, longest_s: float) -> str:
    """A scheduler's part of the picture."""
    top = TOP + at * APART
    foot = top + HEIGHT
    wifi, lte = read["mbps"]
    scale_x = WIDTH / longest_s * read["step_ms"] / 1000
    lower, upper = wifi, [one + other for one, other in zip(wifi, lte, strict=True)]

    def outline(rates: list[float]) -> str:
        places = [(LEFT + at * scale_x, foot - min(rate, HIGHEST) / HIGHEST * HEIGHT) for at, rate in enumerate(rates)]
        return " ".join(f"{x:.0f},{y:.0f}" for x, y in places)

    last = LEFT + (len(wifi) - 1) * scale_x
    x_end = LEFT + ends_s / longest_s * WIDTH
    whole_s = longest_s / SPEED + HOLD_S
    rest = f"{HOLD_S / whole_s:.3f}"
    end = (HOLD_S + ends_s / SPEED) / whole_s
    begin = f'dur="{whole_s:.1f}s" repeatCount="indefinite"'
    reveal = f'<animate attributeName="width" {begin} values="{WIDTH};{WIDTH};0;{WIDTH}" keyTimes="0;{rest};{rest};1"/>'
    times = f"0;{rest};{end:.3f}"
    shown = f'<animate attributeName="opacity" {begin} calcMode="discrete" values="1;0;1" keyTimes="{times}"/>'
    return f"""\
  <text x="{LEFT}" y="{top - 8}">{name}</text>
  <clipPath id="clip{at}"><rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}">{reveal}</rect></clipPath>
  <g clip-path="url(#clip{at})">
    <polygon class="lte" points="{LEFT},{foot} {outline(upper)} {last:.0f},{foot}"/>
    <polygon class="wifi" points="{LEFT},{foot} {outline(lower)} {last:.0f},{foot}"/>
  </g>
  <path d="M{LEFT} {foot} H{LEFT + WIDTH}" class="line"/>
  <text x="{x_end:.0f}" y="{foot + 18}" text-anchor="end">20 MB after {ends_s:.1f} s{shown}</text>
"""


def picture() -> str:
    """The whole picture."""
    shown = runs()
    longest_s = max(ends_s for _, _, ends_s in shown)
    told = ", ".join(f"{name} {ends_s:.1f} s" for name, _, ends_s in shown)
    strips = [strip(at, *one, longest_s) for at, one in enumerate(shown)]
    return HEAD.format(told=told) + "".join(strips) + "</svg>\n"


def report() -> None:
    """Writes the picture of the report."""
    with tempfile.TemporaryDirectory() as folder, Browser(width=1000) as tab:
        subprocess.run([sys.executable, "-m", "weftway", *COMPARE, "--out", folder], check=True, capture_output=True)
        tab.open(Path(folder) / "report.html", "#viewer")
        tab.run("document.querySelector('.filters').style.position = 'static'")
        tab.until(f"document.querySelectorAll('.side:last-child .u-over').length >= {LANES}")
        top, foot = tab.run(
            "(() => { const box = (one) => one.getBoundingClientRect(); return ["
            "box(document.getElementById('h-run')).top + scrollY - 8,"
            f" box(document.querySelectorAll('.side:last-child .run-lane')[{LANES - 1}]).bottom + scrollY]; }})()"
        )
        clip = {"x": 0, "y": top, "width": 1000, "height": foot - top + 8, "scale": 1}
        shot = tab.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        REPORT.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    FILE.write_text(picture(), encoding="utf-8")
    if found():
        report()
