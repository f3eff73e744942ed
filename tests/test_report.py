"""A page is one file that fetches nothing, escapes everything, and shows what it was given."""

import base64
import hashlib
import json
import re
import shutil
import struct
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.report import Page, encode_png
from surefoot.report.markup import cell, decimals, number, render
from surefoot.report.series import BINS, thin, thin_points

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&"


class Elements(HTMLParser):
    """Every element with its attributes, and the text outside scripts and styles."""

    def __init__(self, html: str):
        super().__init__()
        self.found, self.text, self._inside, self.open = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "br"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        assert self._inside.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if not self._inside or self._inside[-1] not in ("script", "style"):
            self.text.append(data)


def specs(page: Page) -> list[dict]:
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', page.html(), re.S)
    return [json.loads(block) for block in blocks]


def unpack(packed) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").astype(float) + packed["middle"]


def full_page(name: str = "FL_calf") -> Page:
    rng = np.random.default_rng(0)
    t = np.linspace(0, 10, 100_000)
    page = Page(f"Gap of {name}", subtitle=name, provenance={"seed": 7, name: name})
    page.text(f"## {name}\n\nA paragraph on **{name}**.\n\n- {name}\n\n### {name}\n")
    page.callout("warning", name)
    page.table([{"joint": name, "gap [mrad]": 1.25, "holds": True}], caption=name)
    page.lines(name, t, {name: np.sin(t), "b": np.cos(t)}, name, name, dashed=("b",), marks={name: 3.0}, note=name)
    page.lines(
        "log", [1, 2, 3], {"a": [1e-3, 1, 10]}, ylog=True, bands={"a": ([5e-4, 0.5, 5], [2e-3, 2, 20])}, steps=("a",)
    )
    with page.columns(2):
        page.bars(name, [name, "b"], {name: [1.0, float("nan")]}, name, errors={name: ([0.5, 0.5], [2.0, 2.0])})
        page.intervals(name, [(name, 1.0, 0.5, 2.0)], name, reference={name: 1.1}, notes={name: name}, zero=True)
    page.scatter(name, {name: (rng.normal(size=100_000), rng.normal(size=100_000))}, name, name, diagonal=True)
    page.heatmap(name, rng.normal(size=(3, 40)), name, name, rows=[name, "b", "c"], middle=0.0, unit=name)
    page.image(rng.random((8, 10, 3)), name)
    page.filmstrip([rng.random((8, 10))] * 3, [name, "b", "c"], name)
    page.video(b"\x00\x00\x00\x18ftypisom" + bytes(16), name)
    return page


def test_page_fetches_nothing():
    html = full_page().html()
    for tag, attributes in Elements(html).found:
        for key in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
            value = attributes.get(key, "data:")
            assert value.startswith("data:") or (tag == "a" and value.startswith("#")), (tag, key, value[:40])
    assert "http:" not in html
    assert "https:" not in html
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|eval)\b", html)
    assert "default-src 'none'" in html


def test_the_content_policy_allows_exactly_the_pages_own_script():
    html = full_page().html()
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html


def test_every_text_is_escaped():
    clean, evil = Elements(full_page("x").html()), Elements(full_page(EVIL).html())
    assert [tag for tag, _ in evil.found] == [tag for tag, _ in clean.found]
    assert not any(key.startswith("on") for _, attributes in evil.found for key in attributes)
    assert EVIL in "".join(evil.text)
    assert specs(full_page(EVIL))[0]["series"][0]["label"] == EVIL


def test_footer_states_seed_hashes_and_versions():
    html = Page("q", provenance={"seed": 11, "log": "0f3a"}).html()
    text = " ".join(Elements(html).text)
    for words in ("seed", "11", "0f3a", "surefoot", "numpy", np.__version__, "python"):
        assert words in text


def test_save_writes_the_page_whole(tmp_path):
    path = full_page().save(tmp_path / "out" / "page.html")
    assert path.read_text("utf-8").endswith("</html>\n")
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]


def test_headings_are_linked_and_their_targets_distinct():
    page = Page("q")
    page.text("## One\n\n## Two\n\n## One\n\n## *Three*")
    found = Elements(page.html()).found
    targets = [a["id"] for tag, a in found if tag == "h2"]
    assert targets == ["one", "two", "one-2", "three"]
    assert [a["href"] for tag, a in found if tag == "a"] == [f"#{t}" for t in targets]


def test_the_example_in_the_documentation_runs():
    text = (Path(__file__).resolve().parents[1] / "docs" / "report.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- numbers ------------------------------------------------------------------------------------


def test_thinning_keeps_every_spike_and_the_extent_of_every_column():
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, 100_000))
    y = rng.normal(size=x.size)
    y[54_321] = 50.0
    tx, ty = thin(x, y)
    assert tx.size <= 2 * BINS
    assert ty.max() == 50.0
    assert abs(tx[ty.argmax()] - x[54_321]) <= (x[-1] - x[0]) / BINS
    place = np.minimum(((x - x[0]) / (x[-1] - x[0]) * BINS).astype(int), BINS - 1)
    for k in range(0, BINS, 37):
        inside = y[place == k]
        assert {inside.min(), inside.max()} == set(ty[2 * k : 2 * k + 2])
    assert (np.diff(tx) > 0).all()


def test_thinning_keeps_order_within_a_column_and_gaps():
    x = np.arange(20_000.0)
    y = x.copy()
    y[5000:8000] = np.nan
    _, ty = thin(x, y, bins=100)
    assert (np.diff(ty[np.isfinite(ty)]) > 0).all()
    assert np.isnan(ty).sum() == pytest.approx(30, abs=2)


def test_thinning_keeps_a_lone_gap_and_joins_nothing_across_it():
    """Windows one after the other, from 0 to 1 each with one NaN between them: no line falls from 1 to 0."""
    x = np.arange(20_000.0)
    y = np.tile(np.append(np.linspace(0, 1, 999), np.nan), 20)
    tx, ty = thin(x, y, bins=130)
    assert np.isnan(ty).any()
    assert tx.size == ty.size <= 6 * 130
    assert (np.diff(tx) > 0).all()
    drawn = np.isfinite(ty[:-1]) & np.isfinite(ty[1:])
    assert (np.diff(ty)[drawn] >= 0).all()
    assert np.isfinite(ty).sum() >= 2 * 130


def test_thinning_stays_short_whatever_the_gaps():
    y = np.where(np.arange(50_000) % 2, np.nan, 1.0)
    tx, ty = thin(np.arange(50_000.0), y)
    assert tx.size <= 6 * BINS
    assert np.nanmin(ty) == np.nanmax(ty) == 1.0


def test_a_band_with_gaps_keeps_both_its_edges_over_one_x():
    page, x = Page("q"), np.arange(20_000.0)
    low, high = np.sin(x / 900) - 1, np.sin(x / 900) + 1
    low[5000], high[11_111] = np.nan, np.nan
    page.lines("t", x, {"a": np.sin(x / 900)}, bands={"a": (low, high)})
    series = specs(page)[0]["series"][0]
    at, low, high = (unpack(series[k]) for k in ("band_x", "low", "high"))
    assert at.size == low.size == high.size
    np.testing.assert_array_equal(np.isnan(low), np.isnan(high))
    assert np.isnan(low).sum() == 2


def test_a_name_may_keep_its_colour_over_several_plots():
    page = Page("q")
    page.lines("t", None, {"log": [1.0], "fitted": [2.0]}, colours={"fitted": 0})
    page.intervals("t", [("a", 1.0, 0.5, 2.0)], words=("fitted", "nominal"))
    lines, intervals = specs(page)
    assert [s.get("colour") for s in lines["series"]] == [None, 0]
    assert intervals["words"] == ["fitted", "nominal"]


def test_short_series_arrive_exactly():
    page = Page("q")
    page.lines("t", [0.0, 0.5, 2.0], {"a": [1.0, np.nan, 3.0]})
    (spec,) = specs(page)
    np.testing.assert_allclose(unpack(spec["series"][0]["x"]), [0, 0.5, 2], atol=1e-6)
    np.testing.assert_allclose(unpack(spec["series"][0]["y"]), [1, np.nan, 3], atol=1e-6)


def test_time_of_day_in_seconds_keeps_its_milliseconds():
    page = Page("q")
    t = 1.7e9 + np.arange(1000) * 1e-3
    page.lines("t", t, {"a": np.sin(t)})
    got = unpack(specs(page)[0]["series"][0]["x"])
    np.testing.assert_allclose(got - got[0], t - t[0], atol=1e-6)


def test_small_values_keep_their_digits_on_a_logarithmic_axis():
    page = Page("q")
    page.lines("t", None, {"a": [1.0, 1.234e-9]}, ylog=True, bands={"a": ([0.5, 1e-9], [2.0, 3e-9])})
    series = specs(page)[0]["series"][0]
    np.testing.assert_allclose(unpack(series["y"]), [1.0, 1.234e-9], rtol=1e-6)
    np.testing.assert_allclose(unpack(series["low"]), [0.5, 1e-9], rtol=1e-6)


def test_each_series_may_have_its_own_time():
    page = Page("q")
    page.lines("t", None, {"a": ([0.0, 1.0], [5.0, 6.0]), "b": (3.0, 4.0, 5.0), "c": (7.0, 8.0)})
    a, b, c = specs(page)[0]["series"]
    np.testing.assert_allclose(unpack(a["y"]), [5, 6])
    np.testing.assert_allclose(unpack(b["x"]), [0, 1, 2])
    np.testing.assert_allclose(unpack(c["y"]), [7, 8])


def test_thinned_points_cover_the_same_cells():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 200_000))
    tx, ty = thin_points(x, y)
    assert tx.size < 50_000
    assert (tx.min(), tx.max(), ty.min(), ty.max()) == (x.min(), x.max(), y.min(), y.max()) or np.allclose(
        [np.ptp(tx), np.ptp(ty)], [np.ptp(x), np.ptp(y)], rtol=0.02
    )


def test_100_000_points_make_a_small_page():
    t = np.linspace(0, 10, 100_000)
    page = Page("q")
    page.lines("t", t, {f"joint {k}": np.sin(t + k) for k in range(12)})
    assert len(page.html()) < 1_000_000


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 3), (5, 7, 4), (1, 1, 3)])
def test_png_gives_back_its_pixels(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(decoded(encode_png(image)), image.reshape(*shape[:2], -1))


def test_png_filters_make_a_smooth_picture_small():
    y, x = np.mgrid[0:256, 0:256]
    image = np.stack([x, y, (x + y) // 2], axis=-1).astype(np.uint8)
    data = encode_png(image)
    assert len(data) < 0.05 * image.nbytes
    np.testing.assert_array_equal(decoded(data), image)


def decoded(data: bytes) -> np.ndarray:
    """A PNG read by the book: chunks with their checksums, then the filters undone row by row."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, header = 8, b"", b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, chunk = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + chunk)
        header, body = (chunk, body) if kind == b"IHDR" else (header, body + chunk)
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", header[:10])
    assert depth == 8
    channels = {0: 1, 2: 3, 6: 4}[colour]
    raw = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels).astype(int)
    out = np.zeros((height, width, channels), dtype=int)
    for r in range(height):
        row = raw[r, 1:].reshape(width, channels)
        if raw[r, 0] == 1:
            row = row.cumsum(axis=0)
        elif raw[r, 0] == 2 and r > 0:
            row = row + out[r - 1]
        out[r] = row % 256
    return out.astype(np.uint8)


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "0"), (-1.5, "−1.5"), (123456.0, "123456"), (1e-7, "1e−7"), (float("nan"), "–"), (float("inf"), "∞")],
)
def test_numbers_are_written_as_people_read_them(value, words):
    assert number(value) == words


def test_a_column_of_numbers_lines_up():
    assert decimals([12.921, 7.7777, 4.5]) == 2
    assert decimals([1.0, 2.0]) == 0
    assert decimals([1000.0, 1e-5]) is None
    assert cell(7.7777, 2) == ("7.78", "number")
    assert cell(True)[0] == "✓ yes"
    assert cell(np.bool_(False)) == ("✗ no", "no")
    assert cell(12345) == ("12\u202f345", "number")


def test_markup_knows_lists_code_and_emphasis():
    html = render("a *b* **c** `d*e*`\nf\n\n- x\n  y\n- z\n\n1. one\n```\n<pre>\n```\n2 * 3 * 4 and foot_friction")
    assert "<p>a <em>b</em> <strong>c</strong> <code>d*e*</code> f</p>" in html
    assert "<ul><li>x y</li><li>z</li></ul>" in html
    assert "<ol><li>one</li></ol>" in html
    assert "<pre><code>&lt;pre&gt;</code></pre>" in html
    assert "<p>2 * 3 * 4 and foot_friction</p>" in html


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p.lines("t", [0, 1], {"a": [1, 2, 3]}), "'a' has 3 values for 2 values of x"),
        (lambda p: p.lines("t", [1, 0], {"a": [1, 2]}), "must not decrease"),
        (lambda p: p.lines("t", [0, 1], {"a": [1, np.inf]}), "infinite value at position 1"),
        (lambda p: p.lines("t", [0, 1], {"a": ["x", "y"]}), "must be numbers"),
        (lambda p: p.lines("t", [0, 1], {}), "at least one series"),
        (lambda p: p.lines("t", [0, 1], {"robot": [1, 2]}, dashed=("robt",)), "did you mean 'robot'"),
        (lambda p: p.lines("t", [0, 1], {"robot": [1, 2]}, colours={"robt": 0}), "did you mean 'robot'"),
        (lambda p: p.lines("t", [0, 1], {"robot": [1, 2]}, colours={"robot": 8}), "numbered 0 to 7"),
        (lambda p: p.bars("t", ["a"], {"s": [1, 2]}), "2 values for 1 categories"),
        (lambda p: p.bars("t", [], {}), "needs categories"),
        (lambda p: p.intervals("t", [("a", 1, 2, 1)]), "its low must not be above its high"),
        (lambda p: p.intervals("t", [("a", 1, 2)]), "label, value, low, high"),
        (lambda p: p.intervals("t", []), "at least one row"),
        (lambda p: p.intervals("t", [("mass", 1, 0, 2)], reference={"mas": 1}), "did you mean 'mass'"),
        (lambda p: p.scatter("t", {"a": ([1], [1, 2])}), "2 values for 1"),
        (lambda p: p.scatter("t", {"a": [1, 2, 3]}), r"must be \(x, y\)"),
        (lambda p: p.heatmap("t", [1, 2]), "needs a matrix"),
        (lambda p: p.heatmap("t", [[1, 2]], rows=["a", "b"]), "1 rows needs as many names"),
        (lambda p: p.heatmap("t", np.zeros((2, 2000))), "up to 1500"),
        (lambda p: p.image(b"hello"), "no PNG, JPEG"),
        (lambda p: p.image(np.zeros((2, 2, 5))), r"got shape \(2, 2, 5\)"),
        (lambda p: p.image(np.full((2, 2), 2.0)), r"must lie in 0\.\.1"),
        (lambda p: p.image(np.zeros((2, 2), dtype=int)), "uint8 or floats"),
        (lambda p: p.video(encode_png(np.zeros((2, 2)))), "use image"),
        (lambda p: p.filmstrip([]), "needs frames"),
        (lambda p: p.callout("worning", "x"), "did you mean 'warning'"),
        (lambda p: p.table([[1, 2]]), "needs `columns`"),
        (lambda p: p.table([[1, 2]], ["a"]), r"needs 1 entries \(a\)"),
        (lambda p: p.table([{"gap": 1}, {"gapp": 1}]), "did you mean 'gap'"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(make, words):
    with pytest.raises(InputError, match=words) as caught:
        make(Page("q"))
    assert "\n" not in str(caught.value)


# ---- in a browser -------------------------------------------------------------------------------

TOUCH = """
for (const svg of document.querySelectorAll("figure.plot svg[role=img]")) {
  const r = svg.getBoundingClientRect(), at = { clientX: r.left + r.width * 0.5, clientY: r.top + r.height * 0.3 };
  svg.dispatchEvent(new PointerEvent("pointermove", at));
}
document.documentElement.dataset.tips = [...document.querySelectorAll(".tip")].filter(t => !t.hidden).length;
for (const button of document.querySelectorAll(".legend button")) button.click();
document.documentElement.dataset.off = document.querySelectorAll("button[aria-pressed=false]").length;
for (const button of document.querySelectorAll(".legend button")) button.click();
"""


def opened(html: str, folder) -> str:
    """The document after a browser has run the page's script; fails on any message of the console."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium on the path: the page's script was not run")
    path = folder / "page.html"
    path.write_text(html, "utf-8")
    quiet = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-sync", "--window-size=1200,900", *quiet]
    logging = ["--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}"]
    command = [browser, *options, *logging, "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_browser_draws_every_plot_without_an_error(tmp_path):
    seen = opened(full_page(EVIL).html(), tmp_path)
    assert 'data-drawn="6"' in seen
    figures = re.findall(r'<figure class="plot".*?</figure>', seen, re.S)
    kinds = [re.search(r'data-kind="(\w+)"', figure)[1] for figure in figures]
    assert kinds == ["lines", "lines", "bars", "intervals", "scatter", "heatmap"]
    for figure in figures:
        assert 'role="img"' in figure
        assert "NaN" not in re.sub(r"<script.*?</script>", "", figure, flags=re.S)
        assert len(re.findall(r"<text", figure)) >= 4
    long_lines = re.findall(r'<path class="line" d="(M[^"]+)"', figures[0])
    assert max(map(len, long_lines)) > 10_000
    assert not [tag for tag, a in Elements(seen).found if tag == "img" and not a["src"].startswith("data:")]


@pytest.mark.slow
def test_pointer_and_legend_work_in_a_browser(tmp_path):
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", full_page().html())
    seen = opened(html.replace("</body>", f"<script>{TOUCH}</script></body>"), tmp_path)
    assert 'data-tips="6"' in seen
    assert 'data-off="2"' in seen


@pytest.mark.slow
def test_a_foreign_script_is_refused_by_the_browser(tmp_path):
    html = full_page().html().replace("</body>", "<script>document.title = 'taken'</script></body>")
    with pytest.raises(AssertionError, match="Content Security Policy"):
        opened(html, tmp_path)


SPANS = [
    (-0.04, 0.045),
    (-0.185, 0.2),
    (0.0, 1e-7),
    (12.34560, 12.34563),
    (1.7e9, 1.7e9 + 2.0),
    (-3.0, 8e6),
    (0.0021, 0.0099),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "high", "ylog"), [*((*s, False) for s in SPANS), *((*s, True) for s in SPANS if s[0] > 0)]
)
def test_every_axis_has_ticks_that_tell_a_scale(tmp_path, low, high, ylog):
    page = Page("q")
    page.lines("t", [0.0, 1.0, 2.0], {"a": [low, high, low]}, ylog=ylog, height=140)
    figure = re.findall(r"<svg viewBox.*?</svg>", opened(page.html(), tmp_path), re.S)[0]
    ticks = re.findall(r'text-anchor="end">([^<]*)</text>', figure)
    assert len(ticks) >= 3
    assert len(set(ticks)) == len(ticks), ticks
    numbers = [float(words.replace("\u2212", "-")) for words in ticks]
    assert np.ptp(np.diff(numbers)) < 0.02 * np.ptp(numbers)


@pytest.mark.slow
def test_a_line_is_drawn_in_the_colour_that_was_asked_for(tmp_path):
    page = Page("q")
    page.lines("t", None, {"log": [1.0, 2.0], "fitted": [2.0, 3.0]}, colours={"log": 6, "fitted": 0})
    seen = opened(page.html(), tmp_path)
    assert re.findall(r'class="line" d="M1 5H21" stroke="([^"]+)"', seen) == ["var(--c6)", "var(--c0)"]
    assert re.findall(r'class="line" d="M[^"]+L[^"]+" stroke="([^"]+)"', seen) == ["var(--c6)", "var(--c0)"]
