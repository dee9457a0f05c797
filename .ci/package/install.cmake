# What is installed, by component: runtime, text, image, signature, dev, tools, python. .ci/README.md says what is in which.
include(${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake)

set(programs ${AIPU_PREFIX}${CMAKE_INSTALL_BINDIR})
set(libraries ${AIPU_PREFIX}${AIPU_LIBRARY_FOLDER})
set(private ${AIPU_PREFIX}${AIPU_PRIVATE_FOLDER})
set(headers ${AIPU_PREFIX}${CMAKE_INSTALL_INCLUDEDIR}/aipu)
set(cmake_files ${libraries}/cmake/aipu)

# Only a wheel brings the libraries of others along, in the folder of its own ones: where those look for each other too, which is what an old RPATH
# says and a new one (RUNPATH) does not.
function(aipu_libraries_at target relative)
  if(AIPU_WHEEL)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH $ORIGIN/${relative})
    target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
  endif()
endfunction()

# Headers. A file set per language; those of C are the runtime's, the others belong to a target that has nothing else.
add_library(aipu_plugin_headers INTERFACE)
target_sources(aipu_runtime PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${AIPU_HEADERS_C99} ${AIPU_HEADERS_CXX17})
target_sources(aipu_plugin_headers PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${AIPU_HEADERS_CXX20} ${AIPU_HEADERS_C99})
target_compile_features(aipu_plugin_headers INTERFACE cxx_std_20)

# component runtime: the library, the back ends, the process of sandboxes.
set_target_properties(aipu_runtime PROPERTIES EXPORT_NAME runtime)
install(TARGETS aipu_runtime EXPORT aipu_runtime
  LIBRARY DESTINATION ${libraries} COMPONENT runtime NAMELINK_COMPONENT dev
  FILE_SET HEADERS DESTINATION ${headers} COMPONENT dev)
foreach(target aipu_backend_host aipu_backend_x2 aipu_backend_null aipu_backend_estimate aipu_backend_interp)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${private} COMPONENT runtime)
    aipu_libraries_at(${target} ..)
  endif()
endforeach()
if(TARGET aipu-sandbox)
  install(TARGETS aipu-sandbox RUNTIME DESTINATION ${private} COMPONENT runtime)
endif()

# component text: what looks into strings; component image: what decodes images.
foreach(component text image)
  install(TARGETS aipu_${component} LIBRARY DESTINATION ${private} COMPONENT ${component})
  aipu_libraries_at(aipu_${component} ..)
endforeach()

# component signature: what signs and checks signatures.
if(TARGET aipu_signature)
  install(TARGETS aipu_signature LIBRARY DESTINATION ${private} COMPONENT signature)
  aipu_libraries_at(aipu_signature ..)
endif()

# component tools
foreach(target aipugb aipudump aipurun aipubench)
  if(TARGET ${target})
    install(TARGETS ${target} RUNTIME DESTINATION ${programs} COMPONENT tools)
    aipu_libraries_at(${target} ../${AIPU_LIBRARY_FOLDER})
  endif()
endforeach()
# What aipubench counts with.
if(TARGET aipu_counters)
  install(TARGETS aipu_counters LIBRARY DESTINATION ${private} COMPONENT tools)
  aipu_libraries_at(aipu_counters ..)
endif()

# component dev: headers, and what finds them.
install(EXPORT aipu_runtime NAMESPACE aipu:: FILE aipu-runtime.cmake DESTINATION ${cmake_files} COMPONENT dev)
if(AIPU_BUILD_COMPILER)
  set_target_properties(aipu_plugin_headers PROPERTIES EXPORT_NAME plugin)
  install(TARGETS aipu_plugin_headers EXPORT aipu_compiler FILE_SET HEADERS DESTINATION ${headers} COMPONENT dev)
  install(EXPORT aipu_compiler NAMESPACE aipu:: FILE aipu-compiler.cmake DESTINATION ${cmake_files} COMPONENT dev)
  install(FILES ${PROJECT_SOURCE_DIR}/runtime/base/embed_files.cmake DESTINATION ${cmake_files} COMPONENT dev)
endif()
include(CMakePackageConfigHelpers)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/aipu-config.cmake.in ${CMAKE_BINARY_DIR}/package/aipu-config.cmake
  INSTALL_DESTINATION ${cmake_files} PATH_VARS programs private)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/aipu-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/aipu-config.cmake ${CMAKE_BINARY_DIR}/package/aipu-config-version.cmake
  DESTINATION ${cmake_files} COMPONENT dev)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${libraries}/pkgconfig OUTPUT_VARIABLE up)
foreach(name aipu aipu-plugin)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${CMAKE_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/package/${name}.pc DESTINATION ${libraries}/pkgconfig COMPONENT dev)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/runtime/examples/run_model.c DESTINATION ${AIPU_PREFIX}${CMAKE_INSTALL_DATADIR}/aipu/examples COMPONENT dev)

# component python
if(TARGET aipu_python)
  set_target_properties(aipu_python PROPERTIES INSTALL_RPATH "")
  aipu_libraries_at(aipu_python ${AIPU_LIBRARY_FOLDER})
  install(TARGETS aipu_python LIBRARY DESTINATION ${AIPU_PYTHON_FOLDER} COMPONENT python)
  if(NOT SKBUILD)  # pip installs them by itself
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/frontend/python/aipu/ DESTINATION ${AIPU_PYTHON_FOLDER} COMPONENT python
            FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
  endif()
  # Programs in Python, which pip makes by itself of the same lines; the others there are C++.
  if(NOT AIPU_WHEEL)
    file(STRINGS ${PROJECT_SOURCE_DIR}/pyproject.toml lines REGEX "^aipu[a-z]* = \"aipu\\.[a-z]")
    foreach(line IN LISTS lines)
      string(REGEX MATCH "^([a-z]+) = \"([a-z_.]+):([a-z_]+)\"" matched "${line}")
      set(program ${CMAKE_MATCH_1})
      set(module ${CMAKE_MATCH_2})
      set(function ${CMAKE_MATCH_3})
      configure_file(${CMAKE_CURRENT_LIST_DIR}/python_program.in ${CMAKE_BINARY_DIR}/package/${program} @ONLY)
      install(PROGRAMS ${CMAKE_BINARY_DIR}/package/${program} DESTINATION ${programs} COMPONENT python)
    endforeach()
  endif()
endif()

# All of the above, for who builds nothing else.
add_custom_target(aipu_package)
foreach(target aipu_runtime aipu_backend_host aipu_backend_x2 aipu_backend_null aipu_backend_estimate aipu_backend_interp aipu_text aipu_image aipu_signature
               aipu_counters aipu-sandbox aipugb aipudump aipurun aipubench aipu_python)
  if(TARGET ${target})
    add_dependencies(aipu_package ${target})
  endif()
endforeach()
