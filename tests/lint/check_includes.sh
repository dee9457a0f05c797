#!/usr/bin/env bash
# The dependency rule, read off the includes: which folder may include which (the link edges are enforced by aipu_library() in the top-level CMakeLists.txt).
set -euo pipefail
cd "$(dirname "$0")/../.."
status=0

# Command-line tools and the Python package, which are programs in this sense, may include anything. Arguments: folder, then the folders that its sources may include
check() {
  local folder=$1 allowed=$2 bad
  bad=$(grep -rnE '^#include "(frontend|graph|kernels|codegen|gbuilder|runtime|models|tests)/' "$folder" --include='*.cpp' --include='*.h' | grep -vE '/tools/|^frontend/python/' |
    grep -vE "#include \"($allowed)" || true)
  if [ -n "$bad" ]; then
    echo "$folder may include only: $allowed"
    echo "$bad"
    status=1
  fi
}

check graph 'graph/|runtime/base/'
check frontend 'frontend/|graph/|runtime/base/'
check codegen 'codegen/|runtime/base/|runtime/abi/kernel_abi.h'
check kernels 'kernels/|graph/|codegen/|runtime/base/'
check kernels/te 'kernels/te/|codegen/|runtime/base/'
check gbuilder 'gbuilder/|kernels/|graph/|codegen/|frontend/|runtime/base/|runtime/abi/'
# The interpreter back end links codegen on purpose (it interprets TIR); it is a library of its own, loaded by name.
for part in base loader engines executor backends/host backends/x2 backends/null; do
  [ -d "runtime/$part" ] && check "runtime/$part" 'runtime/'
done
check runtime/backends/interp 'runtime/|codegen/'

# Third-party types that must not travel through headers.
bad=$(grep -rnE '#include <(google/protobuf|aipu_onnx/)' --include='*.h' frontend graph kernels codegen gbuilder runtime models | grep -v 'frontend/onnx/onnx_pb.h' || true)
if [ -n "$bad" ]; then
  echo "protobuf in a header:"
  echo "$bad"
  status=1
fi
bad=$(grep -rnE '#include <pybind11/' --include='*.cpp' --include='*.h' frontend graph kernels codegen gbuilder runtime models tests | grep -v '^frontend/python/' || true)
if [ -n "$bad" ]; then
  echo "pybind11 outside frontend/python:"
  echo "$bad"
  status=1
fi
bad=$(grep -rnE '#include <(fmt|CLI|nlohmann)/' runtime --include='*.cpp' --include='*.h' | grep -vE '^runtime/(tools|backends/interp)/' || true)
if [ -n "$bad" ]; then
  echo "the runtime depends on libc, libstdc++ and pthread only:"
  echo "$bad"
  status=1
fi
exit $status
