"""The bill of materials of a release, from the lock file alone: CycloneDX 1.6 as JSON.

The same lock gives the same bytes: there is no time and no chance in it.
"""

import json
import uuid
from collections.abc import Sequence
from typing import Any, Final

from tests.supply.lock import PROJECT, Pin

SPEC: Final = "1.6"
INDEX: Final = "https://pypi.org/simple"


def bill_of(pins: Sequence[Pin], version: str) -> str:
    """The document for these pins and this version of the project."""
    project = f"pkg:pypi/{PROJECT}@{version}"
    refs = {PROJECT: project} | {pin.name: _purl(pin) for pin in pins}
    brings: dict[str, list[str]] = {ref: [] for ref in refs.values()}
    for pin in pins:
        for source in pin.via:
            brings[refs[source]].append(refs[pin.name])
    document: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, repr((project, pins)))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": project,
                "name": PROJECT,
                "version": version,
                "purl": project,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(pin) for pin in pins],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(others)} for ref, others in sorted(brings.items())
        ],
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _component(pin: Pin) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _purl(pin),
        "name": pin.name,
        "version": pin.version,
        "purl": _purl(pin),
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"{INDEX}/{pin.name}/",
                "comment": "one SHA-256 a file that may be installed",
                "hashes": [{"alg": "SHA-256", "content": each} for each in pin.hashes],
            }
        ],
    }
    if pin.marker:
        component["scope"] = "optional"
        component["properties"] = [{"name": "python:marker", "value": pin.marker}]
    return component


def _purl(pin: Pin) -> str:
    return f"pkg:pypi/{pin.name}@{pin.version}"
