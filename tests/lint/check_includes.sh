#!/usr/bin/env bash
# The dependency rule, read off the includes: which folder may include which (the link edges are enforced by aipu_library() in the top-level CMakeLists.txt).
set -euo pipefail
cd "$(dirname "$0")/../.."
status=0

# Programs and the Python package may look up, each at what it is for: file, then the includes beyond those of its folder.
LOOKS_UP='
frontend/python/bind_compile.cpp codegen/|gbuilder/(build|precision)\.h|gbuilder/dsl_call(_files)?\.h|kernels/dsl/|runtime/signature/
frontend/python/bind_lanes.cpp codegen/intrinsics/|kernels/dsl/
frontend/python/bind_runtime.cpp runtime/executor/|runtime/model\.h|runtime/session\.h|runtime/tools/(layer_profile|machine_peak)\.h
frontend/python/bind_registry.cpp kernels/te/
frontend/python/bind_schedule.cpp kernels/dsl/|kernels/te/
frontend/python/bind_schedule.h kernels/te/
frontend/python/bind_te.h kernels/te/
frontend/python/bind_te_expression.cpp kernels/te/
frontend/python/bind_te_lower.cpp codegen/cuda_c/|codegen/tir/|kernels/te/
frontend/python/bind_te_operation.cpp kernels/te/
frontend/python/bind_te_schedule.cpp kernels/te/
frontend/python/bind_te_statement.cpp kernels/te/
frontend/python/eager_call.cpp codegen/intrinsics/|kernels/dsl/
frontend/python/eager_call.h codegen/intrinsics/|codegen/tir/
frontend/python/environment.cpp kernels/dsl/
frontend/python/environment.h kernels/dsl/
frontend/python/executor.h gbuilder/dsl_call\.h|runtime/session\.h
gbuilder/tools/aipudump.cpp runtime/loader/|runtime/tools/
gbuilder/tools/aipugb.cpp runtime/tools/|runtime/signature/
gbuilder/tools/quantize.cpp runtime/tools/
runtime/tools/onnx_test/aipu_onnx_test.cpp gbuilder/build\.h
runtime/tools/onnx_test/run_case.cpp gbuilder/build\.h
'

# Arguments: folder, then the folders that its sources may include.
check() {
  local folder=$1 allowed=$2 bad file up
  bad=$(grep -rnE '^#include "(frontend|graph|kernels|codegen|gbuilder|runtime|models|tests)/' "$folder" --include='*.cpp' --include='*.h' |
    grep -vE "#include \"($allowed)" || true)
  while read -r file up; do
    [[ $file == "$folder"/* ]] || continue
    if ! grep -qE "^$file:[0-9]+:#include \"($up)" <<<"$bad"; then
      echo "$file does not include $up any more: take it off the list in tests/lint/check_includes.sh"
      status=1
    fi
    bad=$(grep -vE "^$file:[0-9]+:#include \"($up)" <<<"$bad" || true)
  done <<<"$LOOKS_UP"
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
for part in base loader engines executor sandbox signature tools backends/host backends/x2 backends/null; do
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
