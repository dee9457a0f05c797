# cmake -DSOURCE_DIR=... -DWORK_DIR=... -DCXX=... -DGENERATOR=... -DRUNTIME=... -P runtime_only_test.cmake
#
# The runtime-only build must configure and build without protobuf, ONNX, fmt, GTest and the like, link nothing but the C and C++ libraries, and its
# stripped libraries must be small. So must the runtime of the release build (RUNTIME; empty in other builds).
set(limit_bytes 629145) # 0.6 MiB
file(REMOVE_RECURSE ${WORK_DIR})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed (${code}): ${ARGV}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The options of the preset, with the packages that it may not use disabled for find_package().
set(disabled "")
foreach(package Protobuf ONNX fmt GTest benchmark dnnl nlohmann_json pybind11)
  list(APPEND disabled -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=MinSizeRel -DAIPU_BUILD_COMPILER=OFF
    -DAIPU_BUILD_TESTS=OFF ${disabled})
# Nothing of the compiler may have been configured, however it was found.
file(STRINGS ${WORK_DIR}/CMakeCache.txt found REGEX "^(Protobuf_|PROTOBUF|ONNX|fmt_DIR|GTest_DIR).*=/")
if(found)
  message(FATAL_ERROR "the runtime-only build looks for packages of the compiler: ${found}")
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR} --target aipu_runtime aipu_backend_host aipu_backend_x2 aipu_backend_null)

if(RUNTIME)
  run(strip -o ${WORK_DIR}/runtime.stripped ${RUNTIME})
  file(SIZE ${WORK_DIR}/runtime.stripped size)
  message(STATUS "${RUNTIME}: ${size} bytes stripped")
  if(size GREATER limit_bytes)
    message(FATAL_ERROR "${RUNTIME} has ${size} bytes stripped; the limit is ${limit_bytes}")
  endif()
endif()

foreach(library libaipu_runtime libaipu_backend_host libaipu_backend_x2 libaipu_backend_null)
  set(file ${WORK_DIR}/lib/${library}.so)
  run(strip -o ${file}.stripped ${file})
  file(SIZE ${file}.stripped size)
  message(STATUS "${library}.so: ${size} bytes stripped")
  if(size GREATER limit_bytes)
    message(FATAL_ERROR "${library}.so has ${size} bytes stripped; the limit is ${limit_bytes}")
  endif()
  run(readelf -d ${file})
  string(REGEX MATCHALL "NEEDED[^\n]*\\[[^]]*\\]" needed "${output}")
  foreach(line IN LISTS needed)
    if(NOT line MATCHES "\\[(libc|libm|libstdc\\+\\+|libgcc_s|libpthread|libdl|ld-linux[^]]*)\\.so[.0-9]*\\]")
      message(FATAL_ERROR "${library}.so links more than the C and C++ libraries: ${line}")
    endif()
  endforeach()
endforeach()
