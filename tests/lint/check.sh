#!/usr/bin/env bash
# Every check of this folder in turn, those that CI runs: format and ruff, clang-tidy, includes, links, names in tables and attributes,
# templates, writers of files; and, if build/release is there, the commands and programs of all Markdown files. A tool that is missing is
# said and skipped.
set -uo pipefail
cd "$(dirname "$0")"
status=0
for check in ./check_*; do
  echo "== ${check#./}"
  "$check"
  code=$?
  [ $code -eq 0 ] || [ $code -eq 77 ] || status=1
done
if [ -d ../../build/release/python ]; then
  echo "== run_blocks.py"
  /usr/bin/python3 ../docs/run_blocks.py ../.. ../../build/release || status=1
fi
exit $status
