"""Finding the route of a path among many that begin alike.

Decides which of aiohttp's resources are tried. aiohttp itself tries, one after the other, all that
share the constant part before their first variable, which is nearly the whole API: forty tries
were a fifth of what an operator's order cost. What even one try costs, with all that aiohttp makes
of a match, is a tenth of a look-up: plain paths are answered before that (`before`). It must not
know any single route.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from aiohttp.web_urldispatcher import UrlMappingMatchInfo

Answer = Callable[[web.Request, Mapping[str, str]], Awaitable[web.StreamResponse]]
"""What answers a request, given the variables of its path."""

Plain = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""What answers any request, whatever its path."""


def from_match(answer: Answer) -> Handler:
    """The same as aiohttp's router wants it, which has found the variables already."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return await answer(request, request.match_info)

    return handler


class Shape:
    """A path by its segments: to compare them takes a third of what a pattern takes."""

    def __init__(self, path: str) -> None:
        segments = list(enumerate(path.split("/")))
        self._constants = [(at, text) for at, text in segments if not text.startswith("{")]
        self._variables = [(at, text[1:-1]) for at, text in segments if text.startswith("{")]

    def variables(self, parts: list[str]) -> dict[str, str] | None:
        """The variables of a path without escapes and as many segments; None if it is another's."""
        for at, text in self._constants:
            if parts[at] != text:
                return None
        return None if "" in parts[1:] else {name: parts[at] for at, name in self._variables}


class _Place(Shape):
    """One resource and what answers there."""

    def __init__(self, resource: web.DynamicResource) -> None:
        super().__init__(resource.canonical)
        self.resource = resource
        self.answers: dict[str, Answer] = {}


class Shelf(web.DynamicResource):
    """Every resource below a prefix, by its number of segments and its last one.

    Of two that take the same path, the one whose last segment is no variable comes first.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix + "/{rest:.+}")
        self._by_shape: defaultdict[tuple[int, str], list[_Place]] = defaultdict(list)
        self._by_pattern: dict[str, _Place] = {}

    def put(self, method: str, pattern: str, answer: Answer) -> None:
        """Add a route."""
        place = self._by_pattern.get(pattern)
        if place is None:
            resource = web.DynamicResource(pattern)
            place = self._by_pattern[pattern] = _Place(resource)
            last = resource.canonical.rpartition("/")[2]
            shape = (resource.canonical.count("/"), "" if last.startswith("{") else last)
            self._by_shape[shape].append(place)
        place.answers[method] = answer
        place.resource.add_route(method, from_match(answer))

    async def resolve(self, request: web.Request) -> tuple[UrlMappingMatchInfo | None, set[str]]:
        """The route of a request, or the methods that its path would allow."""
        path = request.rel_url.path_safe
        depth = path.count("/")
        allowed: set[str] = set()
        for last in (path.rpartition("/")[2], ""):
            for place in self._by_shape.get((depth, last), ()):
                found, methods = await place.resource.resolve(request)
                if found is not None:
                    return found, methods
                allowed |= methods
        return None, allowed

    def before(self, others: Plain) -> Plain:
        """Answers what is found at once, and leaves the rest to `others`, aiohttp's own way.

        Paths with escapes, what is not known, and callers that want a word before they send their
        body are of that rest.
        """

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            found = self._at_once(request)
            if found is None or not isinstance(request, web.Request):
                return await others(request)
            return await found[0](request, found[1])

        return answer

    def _at_once(self, request: web.BaseRequest) -> tuple[Answer, dict[str, str]] | None:
        path = request.rel_url.raw_path
        if "%" in path or hdrs.EXPECT in request.headers:
            return None
        parts = path.split("/")
        for last in (parts[-1], ""):
            for place in self._by_shape.get((len(parts) - 1, last), ()):
                variables = place.variables(parts)
                if variables is not None:
                    found = place.answers.get(request.method)
                    return None if found is None else (found, variables)
        return None
