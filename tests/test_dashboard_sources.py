"""The dashboard's files, without a browser: what they name exists, and what they must not do."""

import re
from pathlib import Path

import pytest

from coordinator.api.routes import ROUTES
from coordinator.dashboard import assets

FILES = {name: asset.body.decode() for name, asset in assets().items()}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
PAGE, STYLE = FILES["index.html"], FILES["style.css"]
DESIGN = (Path(__file__).parents[1] / "coordinator" / "dashboard" / "DESIGN.md").read_text()
LINES_MAX = 300


def test_every_path_that_is_asked_for_is_a_route_that_is_read() -> None:
    text = SCRIPTS["paths.js"].replace("${of(namespace)}", "/v1/namespaces/x")
    asked = re.findall(r"""["`](/v1/[^"`?]*)""", text.replace("${encodeURIComponent(", "x${("))
    paths = [re.sub(r"x?\$\{\(?\w+\)?\}\)?", "x", one).split("${")[0] for one in asked]
    assert len(paths) >= 12
    for path in paths:
        parts = path.rstrip("`").split("/")
        takers = [route for route in ROUTES if route.method == "GET" and route.takes(parts)]
        assert takers, path
    elsewhere = [name for name, text in SCRIPTS.items() if name != "paths.js" and "/v1/" in text]
    assert elsewhere == []


def test_every_parameter_that_is_sent_is_one_of_the_route() -> None:
    sent = set(re.findall(r"[?&](\w+)=", SCRIPTS["paths.js"]))
    known = {parameter.name for route in ROUTES for parameter in route.parameters}
    assert sent
    assert sent <= known


def test_every_element_that_a_script_names_is_on_the_page() -> None:
    made = set(re.findall(r'\bid: [`"]([\w-]+)', "".join(SCRIPTS.values())))
    on_page = set(re.findall(r'\bid="([\w-]+)"', PAGE))
    named = set(re.findall(r'byId\("([\w-]+)"\)', "".join(SCRIPTS.values())))
    assert len(named) > 30
    assert named <= on_page | made
    ids = re.findall(r'\bid="([\w-]+)"', PAGE)
    assert len(ids) == len(set(ids))
    for attribute in ("aria-labelledby", "aria-describedby", "for"):
        for value in re.findall(rf'\b{attribute}="([^"]+)"', PAGE):
            assert set(value.split()) <= on_page | made, value


def test_every_module_that_is_imported_is_there_and_every_file_is_used() -> None:
    imported = {one for text in SCRIPTS.values() for one in re.findall(r'from "\./([^"]+)"', text)}
    loaded = set(re.findall(r'"/assets/([^"]+)"', PAGE))
    assert imported | loaded == set(FILES) - {"index.html"}
    exports = {
        name: set(re.findall(r"^export (?:const|function|class) (\w+)", text, re.MULTILINE))
        for name, text in SCRIPTS.items()
    }
    for text in SCRIPTS.values():
        for names, module in re.findall(r'import \{([^}]+)\} from "\./([^"]+)"', text):
            assert {one.strip() for one in names.split(",") if one.strip()} <= exports[module]


@pytest.mark.parametrize(
    "forbidden",
    [
        r"\b(inner|outer)HTML\b",
        r"insertAdjacentHTML|document\.write|DOMParser|createContextualFragment",
        r"\beval\(|new Function\(|setTimeout\(\s*[\"'`]",
        r"localStorage|sessionStorage|document\.cookie|indexedDB",
        r"setAttribute\(\s*[\"']style",
        r"https?://(?!www\.w3\.org/2000/svg)[a-z0-9]",
    ],
)
def test_no_script_does_what_the_pages_policy_is_there_to_stop(forbidden: str) -> None:
    assert {name for name, text in SCRIPTS.items() if re.search(forbidden, text)} == set()


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", PAGE)
    assert re.findall(r"<script[^>]*>(.*?)</script>", PAGE, re.DOTALL) == [""]
    for text in (PAGE, STYLE):
        assert not re.search(r"https?://|//cdn|@import|url\(", text)


def test_only_reading_is_done() -> None:
    text = "".join(SCRIPTS.values())
    assert text.count("fetch(") == 1
    assert "method:" not in text


def test_files_are_short_enough_to_read_and_say_what_they_are_for() -> None:
    for name, text in SCRIPTS.items():
        assert len(text.splitlines()) <= LINES_MAX, name
        assert text.startswith("// "), name
        assert f"`{name}`" in DESIGN or f"{name}" in DESIGN, name


def test_every_colour_has_its_counterpart_in_the_dark() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
    names = set(re.findall(r"--([\w-]+):", light))
    assert names == set(re.findall(r"--([\w-]+):", dark))
    assert set(re.findall(r"var\(--([\w-]+)\)", STYLE)) <= names
    assert set(re.findall(r'\bof\("([\w-]+)"\)', SCRIPTS["map.js"])) <= names


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground"),
    [
        ("ink", "paper"),
        ("ink", "ground"),
        ("quiet", "paper"),
        ("quiet", "ground"),
        ("quiet", "wait-ground"),
        ("accent", "paper"),
        ("good", "good-ground"),
        ("bad", "bad-ground"),
        ("lost", "lost-ground"),
    ],
)
def test_text_stands_out_from_its_ground(scheme: int, ink: str, ground: str) -> None:
    block = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    light, dark = sorted((_luminance(colours[ink]), _luminance(colours[ground])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
