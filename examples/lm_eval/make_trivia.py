"""Writes trivia.jsonl: questions of the trivia that ships, each with the right answer among four.

Usage: python examples/lm_eval/make_trivia.py [HOW MANY]
"""

import json
import random
import sys
from pathlib import Path

from larimar_editor.data.texts import TRIVIA, read_sentences


def main(count: int) -> None:
    rng = random.Random(0)
    asked = [line.partition("? ") for line in read_sentences(TRIVIA) if "? " in line]
    pairs = [(f"{question}?", answer) for question, _, answer in asked if 0 < len(answer) < 40]
    answers = sorted({answer for _, answer in pairs})
    with Path("trivia.jsonl").open("w", encoding="utf-8") as file:
        for question, answer in pairs[:count]:
            choices = [answer, *rng.sample([other for other in answers if other != answer], 3)]
            rng.shuffle(choices)
            row = {"question": question, "choices": choices, "answer": choices.index(answer)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
