"""Which document is which page.

A verb's page begins with what its --help prints. A topic of `slipstream help` is a verb, a page of DOCUMENTS or a rule of advice.
"""

import re

# Topic, document, section of the manual, and what it is about. Documents for those who build slipstream are no pages.
DOCUMENTS = (
    ("install", "docs/install.md", 7, "ways to install slipstream and to remove it"),
    ("tutorial", "docs/tutorial.md", 7, "ten minutes on your training script"),
    ("effects", "docs/effects.md", 7, "what slipstream changes that a program could notice"),
    ("security", "SECURITY.md", 7, "what is promised to those who look after a machine"),
    ("transfer", "docs/transfer.md", 7, "which copies are promoted, and why others are left alone"),
    ("allocator", "docs/allocator.md", 7, "the pool of device memory"),
    ("children", "docs/children.md", 7, "what becomes of processes that a program starts"),
    ("launchers", "docs/launchers.md", 7, "lines for torchrun, MPI, Slurm, notebooks and containers"),
    ("driver-level", "docs/driver-level.md", 7, "calls of the CUDA driver as well as of the runtime"),
    ("versions", "docs/versions.md", 7, "releases of PyTorch, CUDA and Python it was run with"),
    ("rules", "docs/rules.md", 7, "the rules of copies, memory and errors, by number"),
    ("hooks", "docs/hooks.md", 7, "every intercepted function"),
    ("trace", "docs/trace.md", 5, "what is recorded, and its files"),
    ("trace-database", "docs/trace-database.md", 5, "the tables of a recorded run"),
)
# Of a verb the document that is its page.
OF_VERBS = {
    "run": "docs/run.md",
    "report": "docs/report.md",
    "advise": "docs/advise.md",
    "compare": "docs/compare.md",
    "tune": "docs/tune.md",
    "top": "docs/top.md",
    "export": "docs/exports.md",
    "policy": "docs/policy.md",
    "site": "docs/site.md",
}
# Of a verb that has a part of a document: that part.
SECTIONS_OF_VERBS = {
    "summary": ("docs/run.md", "The last runs"),
    "doctor": ("docs/run.md", "Where something is missing"),
    "record": ("docs/trace.md", "On and off while it runs"),
    "completion": ("docs/install.md", "Completion"),
    "metrics": ("docs/site.md", "Scrape it"),
}
# Verbs with nothing beside what --help says.
BARE_VERBS = ("help", "demo")
# The parts of README.md that are for who has slipstream already.
OF_README = ("Three things to do next", "What slipstream changes", "Limits")

TOPICS = {path: topic for topic, path, _, _ in DOCUMENTS} | {path: verb for verb, path in OF_VERBS.items()} | {"README.md": "slipstream"}
# Of a topic that is no verb: its section of the manual.
NUMBERS = {topic: number for topic, _, number, _ in DOCUMENTS}


def name_for_man(topic):
    """How pages of man name each other; rules have none."""
    if topic == "slipstream":
        return "**slipstream**(1)"
    is_page = topic in NUMBERS or topic in TOPICS.values() or topic in SECTIONS_OF_VERBS or topic in BARE_VERBS
    return f"**slipstream-{topic}**({NUMBERS.get(topic, 1)})" if is_page else f"`slipstream help {topic}`"


def rules(advise):
    """The names of the rules that docs/advise.md has a section of."""
    return re.findall(r"^### `([a-z0-9-]+)`$", advise, re.MULTILINE)
