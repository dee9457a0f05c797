#!/usr/bin/env bash
# Whether every file is as its formatter writes it: clang-format for C++, ruff for Python (and its lint rules), mdformat for
# Markdown. `check_format.sh --fix` writes them so. A tool that is missing is a skip (exit 77) that names it; ruff and mdformat
# are looked for in build/lint (tests/lint/install.sh) first.
set -uo pipefail
cd "$(dirname "$0")/../.."
PATH="$PWD/build/lint/bin:$PATH"
fix=no
[ "${1:-}" = "--fix" ] && fix=yes
status=0 missing=""

# Formats of clang-format differ from release to release.
if command -v clang-format >/dev/null && clang-format --version | grep -q 'version 14\.'; then
  if [ $fix = yes ]; then
    git ls-files -z '*.cpp' '*.h' | xargs -0 clang-format -i
  else
    git ls-files -z '*.cpp' '*.h' | xargs -0 clang-format --dry-run --Werror || status=1
  fi
else
  missing+=" clang-format-14"
fi

if command -v ruff >/dev/null; then
  if [ $fix = yes ]; then
    ruff format --quiet . && ruff check --quiet --fix . || status=1
  else
    ruff format --check . && ruff check . || status=1
  fi
else
  missing+=" ruff"
fi

if command -v mdformat >/dev/null; then
  check=--check
  [ $fix = yes ] && check=""
  git ls-files -z '*.md' | xargs -0 mdformat $check --wrap 120 --compact-tables || status=1
else
  missing+=" mdformat"
fi

# Comments, strings and pictures are wrapped by hand.
python3 - <<'PYTHON' || status=1
import subprocess, sys

found = 0
for path in subprocess.check_output(["git", "ls-files", "*.cpp", "*.h", "*.py"], text=True).split():
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        # Text that tests compare, in raw strings, is as long as it is.
        if len(line.rstrip("\n")) > 120 and not path.startswith("tests/"):
            print(f"{path}:{number}: more than 120 columns")
            found = 1
sys.exit(found)
PYTHON

[ $status -ne 0 ] && exit 1
if [ -n "$missing" ]; then
  echo "not checked, as there is no$missing"
  exit 77
fi
