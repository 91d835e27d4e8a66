"""What pyproject.toml cannot say: data that stands outside the package in a checkout lies inside it once installed."""

from setuptools import find_packages, setup

# Read by fp3o/config/catalogue.py. No file is moved or copied in the checkout.
DATA = {
    "fp3o.data": ".",
    "fp3o.data.benchmarks": "benchmarks",
    "fp3o.data.benchmarks.published": "benchmarks/published",
    "fp3o.data.benchmarks.suites": "benchmarks/suites",
    "fp3o.data.profiles.default": "profiles/default",
    "fp3o.data.workflow.report": "workflow/report",
    "fp3o.data.workflow.rules": "workflow/rules",
    "fp3o.data.workflow.schemas": "workflow/schemas",
}

setup(
    packages=[*find_packages(include=["fp3o*", "paper_figures*"]), *DATA],
    package_dir=DATA,
    package_data={
        "fp3o.report": ["templates/*"],
        "paper_figures": ["*.mplstyle"],
        **{name: ["*.yaml", "*.csv", "*.smk", "*.rst"] for name in DATA},
        "fp3o.data": ["Snakefile", "environment.yml"],
    },
)
