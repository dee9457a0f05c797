# Writes OUTPUT, a source with the version: of the project, and the commit where SOURCE_DIR is a checkout. It changes only when the version does.
set(version ${PROJECT_VERSION})
execute_process(COMMAND git describe --always --dirty --abbrev=10 --exclude=* WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed AND commit)
  string(APPEND version " (commit ${commit})")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#include \"runtime/tools/cli.h\"\n\nstd::string_view aipu::tools::version() { return \"${version}\"; }\n")
