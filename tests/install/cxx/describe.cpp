// Loads a model and says what it takes and gives, in C++17 outside of the tree.
#include <runtime/aipu.hpp>

#include <iostream>

int main(int argc, char** argv) try {
  const aipu::Model model(argc == 2 ? argv[1] : "");
  for (const aipu::TensorInfo& info : model.inputs())
    std::cout << "in " << info.name << " of rank " << info.shape.size() << "\n";
  for (const aipu::TensorInfo& info : model.outputs())
    std::cout << "out " << info.name << " of rank " << info.shape.size() << "\n";
} catch (const aipu::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
