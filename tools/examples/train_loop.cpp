// A training loop in CUDA calls: what one PyTorch step does to the runtime, without PyTorch.
//
// Purpose: the bundled example of the demo. A linear model learns from random batches by gradient descent. Each step
// copies a pageable batch to the device, launches the forward, loss, gradient and update kernels, and reads the loss
// back as item() does; now and then it allocates and frees, and uses a second stream with events. The printed loss
// depends on every byte that is moved: a copy that is late, torn or lost changes it.
// Deterministic: data, initial weights and the order of every sum are fixed, so that two runs print the same losses.
// Kernels: there is no device code in this program. It registers host functions with the simulated device when that is
// there (dlsym of the names in tests/sim/simcuda.h); on a real device it says so and ends with status 77.
// Usage: train_loop [--steps N] [--batch N] [--features N] [--quiet-steps] [--timed]
// --timed: the simulated device takes the time that a real one would (SIMCUDA_MODE=timed, unless the variable is set).
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct simLaunch;

namespace {

// Of the simulated driver; null on a real one. See tests/sim/simcuda.h.
using KernelBody = void (*)(const simLaunch*, void** args);
int (*simRegisterKernel)(const void* host_function, const char* name, KernelBody body, const size_t* arg_sizes,
                         int arg_count, uint64_t duration_ns) = nullptr;
void* (*simDevicePointer)(const void* pointer, size_t bytes) = nullptr;

// The runtime has loaded the driver by now.
bool FindSimulatedDevice() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) {
    return false;
  }
  simRegisterKernel = reinterpret_cast<decltype(simRegisterKernel)>(dlsym(driver, "simRegisterKernel"));
  simDevicePointer = reinterpret_cast<decltype(simDevicePointer)>(dlsym(driver, "simDevicePointer"));
  return simRegisterKernel != nullptr && simDevicePointer != nullptr;
}

constexpr int kSkipped = 77;  // what test runners take for "cannot run here"

struct Options {
  int steps = 40;
  int batch = 512;
  int features = 2048;
  bool quiet_steps = false;
};

[[noreturn]] void Usage(const char* wrong) {
  std::fprintf(stderr,
               "train_loop: %s\nusage: train_loop [--steps N] [--batch N] [--features N] [--quiet-steps] [--timed]\n",
               wrong);
  std::exit(2);
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--quiet-steps") {
      options.quiet_steps = true;
      continue;
    }
    if (name == "--timed") {
      setenv("SIMCUDA_MODE", "timed", 0);
      continue;
    }
    int* target = name == "--steps"      ? &options.steps
                  : name == "--batch"    ? &options.batch
                  : name == "--features" ? &options.features
                                         : nullptr;
    if (target == nullptr) {
      Usage(("unknown option " + name).c_str());
    }
    char* end = nullptr;
    const long value = i + 1 < argc ? std::strtol(argv[++i], &end, 10) : 0;
    if (end == nullptr || *end != '\0' || value < 1 || value > 1 << 20) {
      Usage((name + " takes a number from 1 to 1048576").c_str());
    }
    *target = static_cast<int>(value);
  }
  return options;
}

void Check(cudaError_t result, const char* call) {
  if (result != cudaSuccess) {
    std::fprintf(stderr, "train_loop: %s: %s (%s)\n", call, cudaGetErrorName(result), cudaGetErrorString(result));
    std::exit(1);
  }
}
#define CHECK(call) Check((call), #call)

// ---- kernels: addresses for the runtime, bodies for the simulated device
void Predict() {}
void Residual() {}
void Gradient() {}
void Update() {}

template <typename T>
T Argument(void** args, int index) {
  T value;
  std::memcpy(&value, args[index], sizeof value);
  return value;
}

template <typename T>
T* Device(void** args, int index, size_t count) {
  return static_cast<T*>(simDevicePointer(Argument<T*>(args, index), count * sizeof(T)));
}

// prediction[row] = weights . data[row]
void PredictBody(const simLaunch*, void** args) {
  const auto rows = static_cast<size_t>(Argument<int>(args, 3));
  const auto features = static_cast<size_t>(Argument<int>(args, 4));
  const float* data = Device<float>(args, 0, rows * features);
  const float* weights = Device<float>(args, 1, features);
  float* prediction = Device<float>(args, 2, rows);
  if (data == nullptr || weights == nullptr || prediction == nullptr) {
    return;  // the device reports the fault
  }
  for (size_t row = 0; row < rows; ++row) {
    float sum = 0;
    for (size_t i = 0; i < features; ++i) {
      sum += data[row * features + i] * weights[i];
    }
    prediction[row] = sum;
  }
}

// residual[row] = prediction[row] - target[row]; loss = mean of squares
void ResidualBody(const simLaunch*, void** args) {
  const auto rows = static_cast<size_t>(Argument<int>(args, 3));
  float* prediction = Device<float>(args, 0, rows);
  const float* target = Device<float>(args, 1, rows);
  float* loss = Device<float>(args, 2, 1);
  if (prediction == nullptr || target == nullptr || loss == nullptr) {
    return;
  }
  float sum = 0;
  for (size_t row = 0; row < rows; ++row) {
    prediction[row] -= target[row];
    sum += prediction[row] * prediction[row];
  }
  *loss = sum / static_cast<float>(rows);
}

// gradient[i] = mean over rows of residual[row] * data[row][i]
void GradientBody(const simLaunch*, void** args) {
  const auto rows = static_cast<size_t>(Argument<int>(args, 3));
  const auto features = static_cast<size_t>(Argument<int>(args, 4));
  const float* data = Device<float>(args, 0, rows * features);
  const float* residual = Device<float>(args, 1, rows);
  float* gradient = Device<float>(args, 2, features);
  if (data == nullptr || residual == nullptr || gradient == nullptr) {
    return;
  }
  for (size_t i = 0; i < features; ++i) {
    gradient[i] = 0;
  }
  for (size_t row = 0; row < rows; ++row) {
    const float scale = residual[row] / static_cast<float>(rows);
    for (size_t i = 0; i < features; ++i) {
      gradient[i] += scale * data[row * features + i];
    }
  }
}

// weights -= rate * gradient
void UpdateBody(const simLaunch*, void** args) {
  const auto features = static_cast<size_t>(Argument<int>(args, 2));
  const auto rate = Argument<float>(args, 3);
  float* weights = Device<float>(args, 0, features);
  const float* gradient = Device<float>(args, 1, features);
  if (weights == nullptr || gradient == nullptr) {
    return;
  }
  for (size_t i = 0; i < features; ++i) {
    weights[i] -= rate * gradient[i];
  }
}

void RegisterKernels() {
  constexpr size_t kPointer = sizeof(void*);
  const size_t predict[] = {kPointer, kPointer, kPointer, sizeof(int), sizeof(int)};
  const size_t residual[] = {kPointer, kPointer, kPointer, sizeof(int)};
  const size_t update[] = {kPointer, kPointer, sizeof(int), sizeof(float)};
  simRegisterKernel(reinterpret_cast<const void*>(&Predict), "predict", &PredictBody, predict, 5, 600000);
  simRegisterKernel(reinterpret_cast<const void*>(&Residual), "residual", &ResidualBody, residual, 4, 20000);
  simRegisterKernel(reinterpret_cast<const void*>(&Gradient), "gradient", &GradientBody, predict, 5, 600000);
  simRegisterKernel(reinterpret_cast<const void*>(&Update), "update", &UpdateBody, update, 4, 20000);
}

cudaError_t Launch(void (*kernel)(), int rows, void** args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows + 255) / 256);
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(256), args, 0, stream);
}

// The same numbers everywhere: std::mt19937's distributions are not.
class Numbers {
 public:
  float Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) * (1.0f / 2147483648.0f);
  }

 private:
  uint64_t state_ = 20240229;
};

struct Model {
  explicit Model(const Options& wanted) : options(wanted) {
    const auto features = static_cast<size_t>(options.features);
    for (size_t i = 0; i < features; ++i) {
      truth.push_back(numbers.Next());
    }
    const std::vector<float> start(features, 0.0f);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&updated, cudaEventDisableTiming));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&weights), features * sizeof(float)));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&gradient), features * sizeof(float)));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&prediction), static_cast<size_t>(options.batch) * sizeof(float)));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&loss), sizeof(float)));
    CHECK(cudaMallocHost(reinterpret_cast<void**>(&snapshot), features * sizeof(float)));
    CHECK(cudaMemcpyAsync(weights, start.data(), features * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
  }

  // A batch of a loader: pageable, and overwritten by the next one as soon as the copy has returned.
  void NextBatch() {
    const auto rows = static_cast<size_t>(options.batch);
    const auto features = static_cast<size_t>(options.features);
    data.resize(rows * features);
    target.resize(rows);
    for (size_t row = 0; row < rows; ++row) {
      float sum = 0;
      for (size_t i = 0; i < features; ++i) {
        const float value = numbers.Next();
        data[row * features + i] = value;
        sum += value * truth[i];
      }
      target[row] = sum;
    }
  }

  float Step(int step) {
    const auto rows = static_cast<size_t>(options.batch);
    const auto features = static_cast<size_t>(options.features);
    // Like the caching allocator of PyTorch after empty_cache(): blocks come and go every few steps.
    if (step % 8 == 0) {
      if (device_data != nullptr) {
        CHECK(cudaFree(device_data));
        CHECK(cudaFree(device_target));
      }
      CHECK(cudaMalloc(reinterpret_cast<void**>(&device_data), rows * features * sizeof(float)));
      CHECK(cudaMalloc(reinterpret_cast<void**>(&device_target), rows * sizeof(float)));
    }
    // batch.cuda(), twice: copy and synchronize.
    CHECK(cudaMemcpyAsync(device_data, data.data(), rows * features * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpyAsync(device_target, target.data(), rows * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    int row_count = options.batch;
    int feature_count = options.features;
    // Below the bound of stability for batches smaller than the number of features.
    float rate = 0.5f / (1.0f + static_cast<float>(options.features) / static_cast<float>(options.batch));
    void* predict[] = {&device_data, &weights, &prediction, &row_count, &feature_count};
    void* residual[] = {&prediction, &device_target, &loss, &row_count};
    void* slope[] = {&device_data, &prediction, &gradient, &row_count, &feature_count};
    void* update[] = {&weights, &gradient, &feature_count, &rate};
    CHECK(Launch(&Predict, row_count, predict, stream));
    CHECK(Launch(&Residual, row_count, residual, stream));
    CHECK(cudaMemsetAsync(gradient, 0, features * sizeof(float), stream));
    CHECK(Launch(&Gradient, feature_count, slope, stream));
    CHECK(Launch(&Update, feature_count, update, stream));
    CHECK(cudaGetLastError());
    // A checkpoint on another stream, behind this step's update and in front of the next one's.
    if (step % 10 == 9) {
      CHECK(cudaEventRecord(updated, stream));
      CHECK(cudaStreamWaitEvent(side, updated, 0));
      CHECK(cudaMemcpyAsync(snapshot, weights, features * sizeof(float), cudaMemcpyDeviceToHost, side));
      CHECK(cudaEventRecord(updated, side));
      CHECK(cudaStreamWaitEvent(stream, updated, 0));
    }
    // loss.item(): four bytes to a variable on the stack.
    float value = 0;
    CHECK(cudaMemcpyAsync(&value, loss, sizeof value, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return value;
  }

  // Every bit of the weights.
  uint64_t Checksum() {
    const auto features = static_cast<size_t>(options.features);
    std::vector<float> host(features);
    CHECK(cudaMemcpy(host.data(), weights, features * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaStreamSynchronize(side));
    uint64_t sum = 1469598103934665603u;
    const auto add = [&sum](const float* values, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, values + i, sizeof bits);
        sum = (sum ^ bits) * 1099511628211u;
      }
    };
    add(host.data(), features);
    if (options.steps >= 10) {
      add(snapshot, features);
    }
    return sum;
  }

  ~Model() {
    for (float* block : {device_data, device_target, weights, gradient, prediction, loss}) {
      CHECK(cudaFree(block));
    }
    CHECK(cudaFreeHost(snapshot));
    CHECK(cudaEventDestroy(updated));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(side));
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Options options;
  Numbers numbers;
  std::vector<float> truth;
  std::vector<float> data;
  std::vector<float> target;
  cudaStream_t stream = nullptr;
  cudaStream_t side = nullptr;
  cudaEvent_t updated = nullptr;
  float* device_data = nullptr;
  float* device_target = nullptr;
  float* weights = nullptr;
  float* gradient = nullptr;
  float* prediction = nullptr;
  float* loss = nullptr;
  float* snapshot = nullptr;  // pinned
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  int count = 0;
  if (const cudaError_t result = cudaGetDeviceCount(&count); result != cudaSuccess || count == 0) {
    std::fprintf(stderr, "train_loop: no CUDA device: %s\n", cudaGetErrorString(result));
    return kSkipped;
  }
  if (!FindSimulatedDevice()) {
    std::fprintf(
        stderr,
        "train_loop: this example has kernels for the simulated device only; put the folder of its libraries first in "
        "LD_LIBRARY_PATH\n");
    return kSkipped;
  }
  RegisterKernels();
  cudaDeviceProp properties = {};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  const std::string device = properties.name;
  const char* label = device.find("Simulated") != std::string::npos ? " (simulated device)" : "";
  CHECK(cudaSetDevice(0));
  std::printf("linear model, %d features, batch %d, on %s\n", options.features, options.batch, device.c_str());
  Model model(options);
  double seconds = 0;
  float last = 0;
  for (int step = 0; step < options.steps; ++step) {
    model.NextBatch();  // the loader's work is not part of the step
    const auto start = std::chrono::steady_clock::now();
    last = model.Step(step);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!options.quiet_steps) {
      std::printf("step %3d  loss %.6f%s\n", step, static_cast<double>(last), label);
    }
  }
  std::printf("final loss %.9g, weights %016llx%s\n", static_cast<double>(last),
              static_cast<unsigned long long>(model.Checksum()), label);
  std::printf("%.1f samples/s, %.3f ms a step%s\n", options.steps * options.batch / seconds,
              1e3 * seconds / options.steps, label);
  return 0;
}
