"""Which sentence of a longer query asks: a question, a request, or the one that the text goes on from.

Of a page of running text every sentence is compared with every fact, and one in some hundreds looks as if it
asked for one: "The letter says :", "of the following days." So a sentence that is not the one to be answered
has to be the more like a fact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from larimar_editor.utils.text import QUESTION_MARKS

SAID = 20.0  # odds against a sentence that is said, and not asked, before the last
FEW = 3  # sentences that may stand before the last for nothing; each further one counts against it
_QUESTION = re.compile(rf"[{QUESTION_MARKS}]\W*$")
_REQUEST = re.compile(
    r"\W*(?:(?:please|kindly|hey|hi|hello|so|ok|okay|now|and)\W+)*(?:"
    r"who|whom|whose|what|which|when|where|why|how|in (?:what|which)|"
    r"is|are|was|were|do|does|did|can|could|would|will|may|might|"
    r"tell|name|give|say|state|list|find|remind|complete|finish|continue|fill|guess|identify|describe|"
    r"explain|show|recall|write|look up|search|check|answer|question|q|let me know|"
    r"i(?:['’]d| would| want| need| wonder| forgot| forget|['’]m| am| have| was)|we (?:want|need|would)"
    r")\b",
    re.IGNORECASE,
)


def odds_against(sentences: Sequence[str]) -> list[float]:
    """Log-odds, 0 or more, that stand against each sentence of a query being what the query asks.

    None stand against a question, a request or a query of one sentence; log 20 against another sentence
    before the last; and the log of how many more than three there are before it against the last. Both
    numbers were chosen on WikiText-2's validation text.

    Args:
        sentences: of one query, in their order.
    """
    last = len(sentences) - 1
    return [
        0.0
        if _QUESTION.search(sentence) or _REQUEST.match(sentence)
        else math.log(SAID if place < last else max(1, last - FEW + 1))
        for place, sentence in enumerate(sentences)
    ]
