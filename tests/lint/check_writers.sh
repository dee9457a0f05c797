#!/usr/bin/env bash
# Files are written by runtime/base/file.* alone, temporary folders made by runtime/base/temporary.* alone: what is said there about links, devices, permissions
# and half-written files holds for all. With an argument: checks that folder instead of the repository, for the check's own test.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "${1:-$root}"

cpp='\b(ofstream|fstream) |\bfopen\(|\bfreopen\(|O_WRONLY|O_RDWR|O_CREAT|O_TMPFILE|\bcreat\(|mko?stemps?\(|mkdtemp\(|\btmpfile\(|(::|std::|filesystem::|fs::)rename\(|\bmkdir\(|create_director(y|ies)\('
python="\\bopen\\([^)]*[\"'](w|a|x|r\\+|wb|ab|xb|rb\\+)[\"']|write_text\\(|write_bytes\\(|\\.tofile\\(|np\\.save|os\\.(open|rename|replace)\\(|tempfile"
bad=$({
  grep -rnE "$cpp" --include='*.cpp' --include='*.h' codegen frontend gbuilder graph kernels models runtime 2>/dev/null |
    grep -vE '^runtime/base/(file|temporary)\.(cpp|h):' |
    grep -vE '"/dev/null", O_WRONLY' | # no file
    grep -vE '^runtime/backends/native_module\.cpp:.*mkostemp' | # for the dynamic linker, where it may not have a file in memory
    grep -vE '^codegen/driver/kernel_cache\.cpp:.*::mkdir\(path\.c_str\(\), 0700\)' # a folder for this user alone
  grep -rnE "$python" --include='*.py' frontend 2>/dev/null |
    grep -vE '^frontend/python/aipu/_files\.py:' # what is synced, and has the errno of a disk that is full
} || true)
if [ -n "$bad" ]; then
  echo "writes without runtime/base/file.h (in Python: _native.write_file):"
  echo "$bad"
  exit 1
fi
