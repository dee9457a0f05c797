// TIR text, as files carry it: it parses and verifies or not; what does is interpreted, with every access checked.
#include <array>

#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {
namespace {

constexpr int kTecs = 2;
constexpr int64_t kMostBytes = 64 << 20;  // of a launch: sessions have a limit, too

}  // namespace

void one_input(std::string_view input) {
  Meter meter("loading", 256 << 20, "an option", 10, "another");
  const auto module = tir::parse_module(input, &meter);
  if (!module.ok()) return check_error(module.status());
  const auto program = tir::compile_for_interpreter(*module, &meter);
  if (!program.ok()) return check_error(program.status());
  if (tir::launch_bytes(tir::interpreter_needs(**program), kTecs) > kMostBytes) return;
  alignas(64) static std::array<std::array<std::byte, 256>, 8> arrays;
  std::vector<tir::InterpreterArgument> arguments;
  for (const auto& param : module->entry().params) {
    tir::InterpreterArgument argument;
    argument.is_pointer = param->type.pointer;
    argument.word = 3;
    if (argument.is_pointer) {
      argument.data = arrays[arguments.size() % arrays.size()].data();
      argument.bytes = arrays[0].size();
    }
    arguments.push_back(argument);
  }
  tir::InterpreterOptions options;
  options.max_steps = 20000;
  const Status status = tir::interpret_all(**program, kTecs, arguments, options);
  if (!status.ok()) check_error(status);
}

uint64_t runs() { return 20000; }

std::vector<std::string> seeds() {
  return {R"(func meet(x#0: global float32*, y#1: global int32*) -> void {
  let id#2: int32 = S.get_local_id<int32>()
  eval S.barrier<void>()
  store y#1[id#2] = (id#2 + 5)
}
)",
          R"(func f(a#0: global int32*, b#1: global int32*, n#2: int32) -> void {
  let e#3: int32 = S.alloc_event<int32>()
  eval S.async_dma_copy<void>(b#1, a#0, 4, 4, 1, 4, e#3)
  eval S.wait_events<void>(e#3)
  eval S.vstore<void>(broadcast<8>(7), b#1, 1)
  store ((n#2 > 0) ? a#0 : b#1)[0] = 7
  eval call<void> put(b#1)
  store call<global int32*> same(b#1)[0] = 7
}
func put(p#0: global int32*) -> void { store p#0[0] = 7 }
func same(p#0: global int32*) -> global int32* { return p#0 }
)"};
}

std::string mutate(const std::string& input, const std::string& other, Random& random) {
  return mutate_tokens(input, other, random);
}

}  // namespace aipu::fuzz
