"""What the scripts of this folder, and of ../conditions, share: their options."""

import argparse


def options(description, repairs=True, **defaults):
    """--steps, --device, --fixed where there are repairs, and an integer for each default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=defaults.pop("steps", 40))
    parser.add_argument("--device", default="cuda")
    if repairs:
        parser.add_argument("--fixed", action="store_true", help="the same training with what is wrong in it repaired")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()
