// A target in a shared library, to start one's own from (../README.md): a toy NPU with registers of 128 bits, 16 KiB of
// local memory and a code generator of its own. Its kernels are run by the sample device (runtime/backends/sample).
#include <algorithm>
#include <map>

#include "codegen/c_spelling/c_names.h"
#include "codegen/c_spelling/printer_shell.h"
#include "codegen/targets/target_library.h"
#include "codegen/tir/visit.h"

namespace {

using namespace aipu;
using namespace aipu::tir;

// What all units include: the types and functions that the text is made of, in C++ without headers.
constexpr char kPrelude[] = R"(#include <compass/kernel_abi.h>
typedef unsigned char uchar;
#define __kernel static
#define __global
#define __lsram
#define __constant
#define _CLC_INLINE inline
#define _CLC_NOINLINE __attribute__((noinline))
#define restrict __restrict
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define __hidden __attribute__((visibility("hidden")))
static __thread const aipu_tec_context* npu_tec;
template <class T, int N> struct npu_vector { typedef T lane; static const int lanes = N; T at[N]; };
#define NPU_TYPES(T) typedef npu_vector<T, 2> T##2; typedef npu_vector<T, 4> T##4; \
  typedef npu_vector<T, 8> T##8; typedef npu_vector<T, 16> T##16;
NPU_TYPES(bool) NPU_TYPES(uchar) NPU_TYPES(int) NPU_TYPES(long) NPU_TYPES(float)
struct npu_all { struct { bool operator[](int) const { return true; } } at; };
#define NPU_EACH(V) V r; for (int i = 0; i < V::lanes; ++i) r.at[i]
template <class T> T npu_argument(unsigned long long w) { T r; __builtin_memcpy(&r, &w, sizeof r); return r; }
template <class V, class T> V npu_splat(T x) { NPU_EACH(V) = x; return r; }
template <class V, class W> V npu_convert(W x) { NPU_EACH(V) = x.at[i]; return r; }
template <class V> V npu_first(int count) { NPU_EACH(V) = i < count; return r; }
template <class V, class M> V npu_pick(V x, V y, M m) { NPU_EACH(V) = m.at[i] ? x.at[i] : y.at[i]; return r; }
template <class V, class M = npu_all> V npu_load(const void* from, long step, M m = M()) {
  NPU_EACH(V) = m.at[i] ? ((const typename V::lane*)from)[i * step] : 0; return r; }
template <class V, class M = npu_all> void npu_store(V x, void* to, long step, M m = M()) {
  for (int i = 0; i < V::lanes; ++i) if (m.at[i]) ((typename V::lane*)to)[i * step] = x.at[i]; }
template <class T> T npu_min(T x, T y) { return y != y || x < y ? x : y; }
template <class T> T npu_max(T x, T y) { return y != y || x > y ? x : y; }
template <class T> T npu_maximum(T x, T y) { return x != x || x > y ? x : y; }
#define NPU_BINARY(name, R, value) template <class T, int N> npu_vector<R, N> name( \
  npu_vector<T, N> a, npu_vector<T, N> b) { typedef npu_vector<R, N> V; \
  NPU_EACH(V) = [](T x, T y) -> R { return value; }(a.at[i], b.at[i]); return r; }
#define NPU_OPERATOR(o, R) NPU_BINARY(operator o, R, x o y)
NPU_BINARY(npu_min, T, npu_min(x, y)) NPU_BINARY(npu_max, T, npu_max(x, y)) NPU_OPERATOR(>, bool) NPU_OPERATOR(>=, bool)
NPU_BINARY(npu_maximum, T, npu_maximum(x, y))
NPU_OPERATOR(+, T) NPU_OPERATOR(-, T) NPU_OPERATOR(*, T) NPU_OPERATOR(/, T) NPU_OPERATOR(&, T) NPU_OPERATOR(|, T)
NPU_OPERATOR(^, T) NPU_OPERATOR(==, bool) NPU_OPERATOR(!=, bool) NPU_OPERATOR(<, bool) NPU_OPERATOR(<=, bool)
)";

// Functions of the language, as the toy spells them: %0, %1, ... are operands, %t is the type of the result, %m
// ", mask" if there is one.
const std::map<std::string_view, std::string_view> kCalls = {
    {"vload", "npu_load<%t>(%0, %1%m)"}, {"vstore", "npu_store(%0, %1, %2%m)"},
    {"tail_mask", "npu_first<%t>(%0)"},  {"vsel", "npu_pick(%0, %1, %2)"},
    {"max", "npu_max(%0, %1)"},          {"min", "npu_min(%0, %1)"},
    {"get_local_id", "npu_tec->tec_id"}, {"get_local_size", "npu_tec->tec_count"},
    {"maximum", "npu_maximum(%0, %1)"},  {"vbcast", "npu_splat<%t>(%0)"}};
const PrinterShell::Dialect kDialect = {
    "sample_c", true, "return;", "static ", "static uchar __attribute__((aligned(16))) ", with_cxx_words({"npu_tec"})};

// The shell prints statements, blocks and names; this is what memory, vectors and calls look like.
class Printer final : public PrinterShell {
 public:
  Printer(const Module& module, const std::vector<std::string>& names, const LaunchNeeds& needs)
      : PrinterShell(module, names, kDialect), needs_(needs) {}
  std::string mask_or_all(const Expr& mask, int) override { return mask ? ", " + expr(mask) : ""; }
  std::string splat(const Type& type, const std::string& x) override {
    return str_cat("npu_splat<", c_type(type), ">(", x, ")");
  }
  std::string open_lanes(const Type& type, const std::string&) override { return splat(type, "0"); }

 private:
  std::string lane(const std::string& vector, const Expr& index) { return vector + ".at[" + expr(index) + "]"; }
  std::string lane_read(const LaneRead& n) override { return lane(expr(n.vector), n.index); }
  void lane_write(const LaneWrite& n) override { line(lane(name_of(*n.var), n.index) + " = " + expr(n.value) + ";"); }
  void store(const Store& n) override { line(access(n.pointer, n.index) + " = " + expr(n.value) + ";"); }
  std::string load(const Load& n) override { return access(n.pointer, n.index); }
  std::string access(const Expr& pointer, const Expr& index) { return "(" + expr(pointer) + ")[" + expr(index) + "]"; }
  void alloc(const Alloc& n) override {
    const std::string type = c_type(n.buffer->type.pointee()), name = declare(n.buffer);
    const auto place = needs_.memory.offsets.find(n.buffer.get());
    if (!n.data.empty()) return line(type + "* " + name + " = (" + type + "*)" + constant_array(n) + ";");
    if (place == needs_.memory.offsets.end()) return line(str_cat(type, " ", name, "[", n.count + 1, "];"));
    line(str_cat(type, "* ", name, " = (", type, "*)(npu_tec->lsram + ", place->second, ");"));
  }
  void for_loop(const For& n) override {  // the bounds are evaluated once
    const std::string start = expr(n.start), stop = expr(n.stop), step = expr(n.step), i = declare(n.var);
    const std::string end = reserve(i + "_end"), by = reserve(i + "_by");
    line("for (" + c_type(n.var->type) + " " + i + " = " + start + ", " + end + " = " + stop + ", " + by + " = " +
         step + "; " + i + " < " + end + "; " + i + " += " + by + ") {");
    body(n.body);
    line("}");
  }
  std::string binary(const Binary& n, const Expr& e) override {
    const std::string x = expr(n.lhs), y = expr(n.rhs);
    const std::string_view symbol = binary_op_symbol(n.op);
    if (n.op == BinaryOp::kMin || n.op == BinaryOp::kMax) return str_cat("npu_", symbol, "(", x, ", ", y, ")");
    if (e->type.is_vector()) return str_cat("(", x, " ", symbol, " ", y, ")");
    const bool shift = n.op == BinaryOp::kShl || n.op == BinaryOp::kShr;
    const std::string by = shift ? str_cat("(", y, " & ", std::max(32, dtype_bits(e->type.element)) - 1, ")") : y;
    return str_cat("((", c_type(e->type), ")(", x, " ", symbol, " ", by, "))");
  }
  std::string conversion(const Cast& n, const Expr& e) override {
    const std::string type = c_type(e->type), x = expr(n.operand);
    return e->type.is_vector() ? "npu_convert<" + type + ">(" + x + ")" : "((" + type + ")" + x + ")";
  }
  std::string broadcast_text(const Broadcast& n, const Expr& e) override { return splat(e->type, expr(n.scalar)); }
  std::string literal(const VectorLiteral& n, const Expr& e) override {
    std::string lanes;
    for (const Expr& lane : n.lanes) lanes += (lanes.empty() ? "" : ", ") + expr(lane);
    return c_type(e->type) + "{{" + lanes + "}}";
  }
  std::string intrinsic(const IntrinsicCall& n, const Expr& e, const std::string&) override {
    const std::string_view form = kCalls.at(n.intrinsic->name);
    std::string text;
    for (size_t i = 0; i < form.size(); ++i) {
      const char next = form[i] == '%' ? form[++i] : '\0';
      if (next == '\0') text += form[i];
      if (next == 't') text += c_type(e->type);
      if (next == 'm') text += mask_or_all(n.mask, 0);
      if (next >= '0' && next <= '9') text += expr(n.args[static_cast<size_t>(next - '0')]);
    }
    return text;
  }
  const LaunchNeeds& needs_;
};

class SampleC final : public CodeGenerator {
 public:
  std::string_view name() const override { return "sample_c"; }
  std::string prelude(const Target&) const override { return kPrelude; }
  Status check(const Module& lowered, const Target& target) const override {
    Status status = check_types(lowered, target);
    const auto refuse = [&](std::string what) {
      if (status.ok()) status = unsupported("sample_c has no " + what);
    };
    const auto visit = [&](const Expr& e) {
      const auto* n = e->as<Binary>();
      const std::string_view symbol = n == nullptr ? "" : binary_op_symbol(n->op);
      const bool missing = symbol == "<<" || symbol == ">>" || symbol == "%" || symbol == "/";
      if (missing && e->type.is_vector() && (symbol != "/" || is_integer(e->type.element)))
        refuse(str_cat(symbol, " of ", e->type.text()));
      const auto* cast = e->as<Cast>();
      if (cast != nullptr && is_floating(cast->operand->type.element) && !is_floating(e->type.element))
        refuse("conversion of " + cast->operand->type.text() + " to " + e->type.text());
      if (e->as<Unary>() != nullptr && e->type.is_vector()) refuse("operator for one " + e->type.text());
      const auto* call = e->as<IntrinsicCall>();
      if (call == nullptr) return;
      const auto form = kCalls.find(call->intrinsic->name);
      if (form == kCalls.end()) return refuse(str_cat("S.", call->intrinsic->name));
      if (call->mask != nullptr && form->second.find("%m") == std::string_view::npos)
        refuse(str_cat("mask of S.", form->first));
    };
    for (const PrimFuncPtr& function : lowered.functions) walk(function->body, visit, [](const Stmt&) {});
    return status;
  }
  Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool) const override {
    const Module& module = kernel.lowered;
    const LaunchNeeds needs = launch_needs(module);
    AIPU_RETURN_IF_ERROR(check_runs(module, needs, target));
    std::vector<std::string> names;
    for (const PrimFuncPtr& f : module.functions) names.push_back(kernel.symbol + (names.empty() ? "" : "_" + f->name));
    Printer printer(module, names, needs);
    AIPU_ASSIGN_OR_RETURN(std::string functions, printer.all_functions());
    return wrap_kernel(kernel.symbol, names[0], module, needs, std::move(functions), {"npu_argument", "npu_tec"});
  }
};

Target sample_npu() {
  return {
      .name = "sample_npu",
      .description = "a toy NPU",
      .codegen = "sample_c",
      .backend = "sample",
      .vector_bits = 128,
      .types = {DType::kU8, DType::kI32, DType::kI64, DType::kF32},
      .native_fma = false,
      .address_bits = 32,
      .memories = {{.name = "ddr", .bytes_per_cycle = 8}, {.name = "scratch", .reach = Reach::kTec, .bytes = 16 << 10}},
      .engines = {{.kind = EngineKind::kTec, .count = 1, .takes_launches = true},
                  {.kind = EngineKind::kDma, .count = 1, .takes_copies = true}}};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) aipu::Status aipu_register_target_v2(TargetLibrary& library) {
  library.add_code_generator(std::make_unique<SampleC>());
  library.add_target(sample_npu());
  return {};
}
