#!/usr/bin/env bash
# Builds everything and runs all tests. Needs no arguments; ends with ctest's summary and a non-zero status when anything fails.
#   --quick   only the release build and its tests (no sanitizer build)
#   --full    many more random cases, and the tests that need 16 GiB of memory
set -euo pipefail
cd "$(dirname "$0")"

quick=no
timeout_factor=1
packages=
case "$*" in
  "") ;;
  --quick) quick=yes ;;
  --full)
    timeout_factor=40
    packages=--all
    export AIPU_FUZZ_SEEDS=2000 AIPU_FUZZ_CASES=200000 AIPU_PASSES_SEEDS=10000 AIPU_SAMPLES_SEEDS=20000 AIPU_LARGE_TESTS=1
    ;;
  -h | --help)
    cat <<'HELP'
Usage: ./run-tests.sh [--quick | --full]

Builds everything and runs all tests; ends with ctest's summary and a non-zero status when anything fails.
On two cores with an empty cache of objects about 15 minutes to build and 25 to test, as much again for the sanitizers.

  --quick     only the release build and its tests, no sanitizers
  --full      every random suite with many more cases, and tests that need 16 GiB of memory: hours
  -h, --help  prints this

One folder of tests: ctest --test-dir build/release -L FOLDER (see tests/README.md)
HELP
    exit 0
    ;;
  *)
    echo "run-tests.sh: unknown arguments: $* (see --help)" >&2
    exit 2
    ;;
esac
./run-demo.sh --install-only
tests/lint/install.sh
tests/python/install.sh $packages
if [ "$packages" = --all ] && ! command -v chromium >/dev/null; then # opens pages in a test, which is skipped without
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null || echo "not installed: chromium"
fi
if [ "$packages" = --all ] && ! { command -v qemu-aarch64 && command -v aarch64-linux-gnu-g++; } >/dev/null; then # for tests/aarch64
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends crossbuild-essential-arm64 qemu-user >/dev/null ||
    echo "not installed: a cross compiler for aarch64, qemu-user"
fi
jobs=$(nproc)
werror=OFF
[ "${CI:-}" = "true" ] && werror=ON

echo "== build (release)"
mkdir -p build
cmake --preset release -DAIPU_WERROR=$werror -DAIPU_TEST_TIMEOUT_FACTOR=$timeout_factor >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
cmake --build --preset release >build/build.log 2>&1 || { tail -60 build/build.log; exit 1; }

status=0
if [ $quick = no ]; then
  echo "== build (address and undefined-behaviour sanitizers: loaders, parsers and their fuzz tests)"
  cmake --preset asan-ubsan -DAIPU_WERROR=$werror -DAIPU_TEST_TIMEOUT_FACTOR=$timeout_factor >build/configure-asan.log 2>&1 || { cat build/configure-asan.log; exit 1; }
  cmake --build --preset asan-ubsan --target aipu_sanitized_tests >build/build-asan.log 2>&1 || { tail -60 build/build-asan.log; exit 1; }
  echo "== sanitized tests"
  ctest --test-dir build/asan-ubsan -L sanitized --output-on-failure -j "$jobs" || status=1

  echo "== build (thread sanitizer: the runtime and its test of many threads)"
  cmake --preset tsan -DAIPU_WERROR=$werror -DAIPU_TEST_TIMEOUT_FACTOR=$timeout_factor >build/configure-tsan.log 2>&1 || { cat build/configure-tsan.log; exit 1; }
  cmake --build --preset tsan --target aipu_thread_tests >build/build-tsan.log 2>&1 || { tail -60 build/build-tsan.log; exit 1; }
  echo "== thread-sanitized tests"
  ctest --test-dir build/tsan -R '^(runtime_(threads|async|engine_queues)|devices_(conformance|session))_test$' --output-on-failure || status=1
fi

echo "== tests"
ctest --test-dir build/release --output-on-failure -j "$jobs" || status=1
exit $status
