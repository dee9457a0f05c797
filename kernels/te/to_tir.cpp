#include "kernels/te/to_tir.h"

#include "kernels/te/tir_converter.h"

namespace aipu::te {

Result<Kernel> to_tir(const Function& function) { return Converter(function).run(); }

}  // namespace aipu::te
