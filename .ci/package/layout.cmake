# Where things are installed, from the prefix on. Programs find what belongs to them relative to themselves (runtime/backends/own_folders.cpp), so that
# a prefix can be moved.
include(GNUInstallDirs)

option(AIPU_WHEEL "Install for a Python wheel: the folder of the package is a prefix of its own" ${SKBUILD})

# The binary interface of libaipu_runtime.so: rises when a program that was linked before would not run any more.
set(AIPU_SOVERSION 0)

if(AIPU_WHEEL)
  set(AIPU_PREFIX aipu/)
  set(AIPU_LIBRARY_FOLDER lib)
  set(AIPU_PYTHON_FOLDER aipu)
else()
  set(AIPU_PREFIX "")
  set(AIPU_LIBRARY_FOLDER ${CMAKE_INSTALL_LIBDIR})
  set(AIPU_PYTHON_FOLDER lib/python3/dist-packages/aipu)
endif()
# Back ends, aipu-sandbox: found by name, linked by nobody.
set(AIPU_PRIVATE_FOLDER ${AIPU_LIBRARY_FOLDER}/aipu)
