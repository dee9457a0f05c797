#!/usr/bin/env bash
# Packages that tests of the Python package compare with or run under, in build/packages; with --all, which run-tests.sh
# --full gives, also OpenVINO and Ray (1 GB). Where PyPI can't be reached those tests are skipped (other_python.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
wanted=(numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0 pyarrow==26.0.1 pillow==13.0.0 mlcommons-loadgen==6.0.17)
[ "${1:-}" = --all ] && wanted+=(openvino==2026.4.1 'ray[data,serve]==2.60.0')
[ "$(cat build/packages/wanted 2>/dev/null)" = "${wanted[*]}" ] && exit 0
mkdir -p build
rm -rf build/packages.new
python3 -m venv build/packages.new && build/packages.new/bin/pip install --quiet --disable-pip-version-check "${wanted[@]}" ||
  { rm -rf build/packages.new; echo "not installed: ${wanted[*]}"; exit 0; }
echo "${wanted[*]}" >build/packages.new/wanted
# Programs of a virtual environment name its folder.
sed -i "s#$PWD/build/packages.new#$PWD/build/packages#" build/packages.new/bin/* 2>/dev/null || true
rm -rf build/packages
mv build/packages.new build/packages
