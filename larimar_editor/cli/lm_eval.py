"""``larimar-editor lm-eval``: the language model evaluation harness's own command, which then knows
Larimar.
"""

from __future__ import annotations

import sys

import typer


def lm_eval(context: typer.Context) -> None:
    """Run lm-evaluation-harness with `--model larimar` among its models; all arguments are the harness's.

    Example: larimar-editor lm-eval --model larimar --model_args pretrained=smollm2-135m,facts=facts.db
    --tasks lambada_openai. Without facts= the base model is measured. `lm-eval --help`, the harness's own
    command, lists its arguments.
    """
    try:
        from lm_eval.__main__ import cli_evaluate
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"lm-evaluation-harness needs {error.name}: pip install '.[lm-eval]' in a checkout",
            name=error.name,
        ) from error

    import larimar_editor.tools.lm_harness  # noqa: F401  (registers itself)

    sys.argv = ["lm-eval", *context.args]
    cli_evaluate()
