#!/usr/bin/env bash
# The formatters that Debian does not have, in build/lint. Where PyPI can't be reached the check of formats skips them.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -x build/lint/bin/mdformat ] && exit 0
mkdir -p build
rm -rf build/lint.new
python3 -m venv build/lint.new && build/lint.new/bin/pip install --quiet --disable-pip-version-check \
  ruff==0.17.6 mdformat==1.0.0 mdformat-gfm==1.0.0 || { rm -rf build/lint.new; echo "not installed: ruff, mdformat"; exit 0; }
# Programs of a virtual environment name its folder.
sed -i "s#$PWD/build/lint.new#$PWD/build/lint#" build/lint.new/bin/* 2>/dev/null || true
rm -rf build/lint
mv build/lint.new build/lint
