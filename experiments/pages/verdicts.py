"""docs/results/verdicts.md: the tables of papers whose runs are those that the rule asks for."""
from __future__ import annotations

import hierarchical
import placeto
import post
import sgdp
import thesis

from shared.archive import Source
from shared.claims import claim_table
from shared.page import Value

PAPERS = {"post": post, "hierarchical": hierarchical, "sgdp": sgdp, "thesis": thesis, "placeto": placeto}


def describe(source: Source) -> tuple[dict[str, Value], dict[str, list[str]]]:
    return {}, {name: claim_table(page.claims(source)) for name, page in PAPERS.items()}
