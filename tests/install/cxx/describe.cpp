// Loads a model and says what it takes and gives, in C++17 outside of the tree.
#include <runtime/aipu.h>

#include <iostream>
#include <memory>

int main(int argc, char** argv) {
  aipu_model* loaded = nullptr;
  if (argc != 2 || aipu_model_load(argv[1], nullptr, &loaded) != AIPU_OK) {
    std::cerr << aipu_last_error() << "\n";
    return 1;
  }
  const std::unique_ptr<aipu_model, void (*)(aipu_model*)> model(loaded, &aipu_model_release);
  aipu_tensor_info info = {};
  for (uint32_t i = 0; aipu_model_input(model.get(), i, &info) == AIPU_OK; ++i)
    std::cout << "in " << info.name << " of rank " << info.rank << "\n";
  for (uint32_t i = 0; aipu_model_output(model.get(), i, &info) == AIPU_OK; ++i)
    std::cout << "out " << info.name << " of rank " << info.rank << "\n";
}
