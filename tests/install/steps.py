"""What the tests of this folder do: commands that must succeed, and what has to hold."""

import os
import subprocess
import sys


def run(*command, hidden=(), **options):
    """The output of a command that must succeed. ``hidden``: words before it, which are not shown."""
    words = [str(word) for word in command]
    options["env"] = {**os.environ, **options.get("env", {})}
    result = subprocess.run([*hidden, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(words)}\nfailed ({result.returncode}):\n{result.stdout}")
    return result.stdout


def expect(condition, what):
    if not condition:
        sys.exit(f"not so: {what}")
