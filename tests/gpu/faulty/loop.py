"""What the scripts of this folder share: their options."""

import argparse


def options(description, **defaults):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=defaults.pop("steps", 40))
    parser.add_argument("--device", default="cuda")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()
