"""The command-line programs that a wheel has in it: what pip puts on the path starts them."""

import os
import sys


def _start(name: str) -> None:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    if not os.path.exists(path):
        sys.exit(f"{name}: this installation of the package aipu has no programs in it")
    os.execv(path, [path, *sys.argv[1:]])


def aipugb() -> None:
    _start("aipugb")


def aipurun() -> None:
    _start("aipurun")


def aipubench() -> None:
    _start("aipubench")


def aipudump() -> None:
    _start("aipudump")
