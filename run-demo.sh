#!/usr/bin/env bash
# From a fresh Debian 12 machine to a running model: installs what is missing, builds, makes a sample CNN, converts it, runs it, checks the result against
# oneDNN, and says how long each stage took. Everything is written below build/.
set -euo pipefail
cd "$(dirname "$0")"

if [ $# -gt 1 ] || { [ $# -eq 1 ] && [ "$1" != "--install-only" ]; }; then
  [ "${1:-}" = "--help" ] || [ "${1:-}" = "-h" ] || { echo "run-demo.sh: unknown arguments: $* (see --help)" >&2; exit 2; }
  cat <<'HELP'
Usage: ./run-demo.sh [--install-only]

From a fresh Debian 12 machine to a running model: installs what is missing, builds, makes a sample CNN, converts it,
runs it and compares it with oneDNN. Everything is written below build/.
About 4 minutes on two cores with an empty cache of objects, half a minute when everything is built.

  --install-only  only installs the packages that are missing (about a minute)
  -h, --help      prints this

Exit codes: 0 all went well; 2 unknown arguments; others: a stage failed, its name and messages are above.
HELP
  exit 0
fi

PACKAGES=(g++ cmake ninja-build libprotobuf-dev protobuf-compiler libflatbuffers-dev flatbuffers-compiler libdnnl-dev libgtest-dev libgmock-dev
  libbenchmark-dev libfmt-dev libcli11-dev nlohmann-json3-dev libxxhash-dev libonnx-testdata libsodium-dev libicu-dev libre2-dev
  libjpeg-dev libpng-dev libtiff-dev libwebp-dev libopenjp2-7-dev libpfm4-dev clang
  pybind11-dev python3-dev python3-numpy python3-pytest python3-venv clang-format)

install_missing() {
  local missing=()
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  echo "installing: ${missing[*]}"
  local sudo=""
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  # Where packages can't be installed, CMake says which of the missing ones it can't do without.
  { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; } ||
    echo "could not install: ${missing[*]}"
}

stage() { # stage "name" command...
  local name=$1 start end
  shift
  start=$(date +%s.%N)
  "$@"
  end=$(date +%s.%N)
  printf '== %-28s %8.2f s\n' "$name" "$(echo "$end $start" | awk '{print $1 - $2}')"
}

build() {
  cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
  cmake --build --preset release --target programs >build/build.log 2>&1 || { tail -40 build/build.log; exit 1; }
}

mkdir -p build/demo
if [ "${1:-}" = "--install-only" ]; then
  install_missing
  exit 0
fi
stage "install packages" install_missing
stage "build (release)" build

BIN=build/release/bin
stage "make sample_cnn.onnx" $BIN/aipu-make-model sample_cnn -o build/demo/sample_cnn.onnx
stage "reference by oneDNN" $BIN/aipu-onednn-reference build/demo/sample_cnn.onnx --shape image=2x3x32x32 --seed 1 \
  --save-input build/demo/input.npy --output build/demo/expected.npy
stage "convert (aipugb)" $BIN/aipugb build/demo/sample_cnn.onnx -o build/demo/sample_cnn.aipu.bin
stage "convert again (warm cache)" $BIN/aipugb build/demo/sample_cnn.onnx -o build/demo/sample_cnn.aipu.bin
stage "run and compare (aipurun)" $BIN/aipurun build/demo/sample_cnn.aipu.bin --input image=build/demo/input.npy \
  --expect probabilities=build/demo/expected.npy --rtol 1e-4 --atol 1e-5
stage "benchmark (aipubench)" $BIN/aipubench build/demo/sample_cnn.aipu.bin --shape image=2x3x32x32 --duration 1
echo "done: the aipu.bin agrees with oneDNN"
