#!/usr/bin/env bash
# Every check of this folder in turn, those that CI runs: format and ruff, clang-tidy, includes, links, names in tables and attributes,
# templates, writers of files. Options go to none of them; a tool that is missing is said and skipped.
set -uo pipefail
cd "$(dirname "$0")"
status=0
for check in ./check_*; do
  echo "== ${check#./}"
  "$check"
  code=$?
  [ $code -eq 0 ] || [ $code -eq 77 ] || status=1
done
exit $status
