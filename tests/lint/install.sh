#!/usr/bin/env bash
# What checks and documents need beside what building needs: clang-tidy, Doxygen, Sphinx, and in build/lint the formatters that Debian
# does not have. What can't be installed is skipped by its test.
set -euo pipefail
cd "$(dirname "$0")/../.."
missing=()
for package in clang-tidy doxygen python3-sphinx; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  sudo=""
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    echo "not installed: ${missing[*]}"
fi
[ -x build/lint/bin/mdformat ] && exit 0
mkdir -p build
rm -rf build/lint.new
python3 -m venv build/lint.new && build/lint.new/bin/pip install --quiet --disable-pip-version-check \
  ruff==0.17.6 mdformat==1.0.0 mdformat-gfm==1.0.0 || { rm -rf build/lint.new; echo "not installed: ruff, mdformat"; exit 0; }
# Programs of a virtual environment name its folder.
sed -i "s#$PWD/build/lint.new#$PWD/build/lint#" build/lint.new/bin/* 2>/dev/null || true
rm -rf build/lint
mv build/lint.new build/lint
