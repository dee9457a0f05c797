#!/usr/bin/env bash
# aipu against ONNX Runtime on the models of models/. Options go to compare.py (--help); AIPU_BUILD names the build folder.
#   tests/bench/compare/compare.sh                                 # everything: about half an hour
#   tests/bench/compare/compare.sh --models resnet50,bert2 --batches 1 --threads 2
#   tests/bench/compare/compare.sh --before /path/to/other/build/release    # two builds of aipu: versions.py
#   tests/bench/compare/compare.sh --precisions fp32,bf16,int8              # beside OpenVINO too: precisions.py
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=${AIPU_BUILD:-$root/build/release}
work=$root/build/compare
venv=$work/venv
if ! "$venv/bin/python" -c 'import numpy, onnxruntime' 2>/dev/null; then
  mkdir -p "$work"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --upgrade onnxruntime numpy
fi
for program in aipugb aipu-make-model; do
  [ -x "$build/bin/$program" ] || { echo "compare.sh: $build/bin/$program does not exist: build it, or set AIPU_BUILD" >&2; exit 1; }
done
script=compare.py
for option in "$@"; do
  [[ $option == --before* ]] && script=versions.py
  [[ $option == --precisions* ]] && script=precisions.py
done
if [ $script = precisions.py ] && ! "$venv/bin/python" -c 'import onnx, openvino' 2>/dev/null; then
  "$venv/bin/pip" install --quiet --upgrade onnx openvino
fi
exec "$venv/bin/python" "$here/$script" --build "$build" --work "$work/models" "$@"
