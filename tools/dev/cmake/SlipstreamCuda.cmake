# Finds the CUDA headers (runtime, driver, CUPTI, NVTX3) and makes them the target slipstream_cuda_headers.
#
# Only headers: nothing of ours links a CUDA library. Looked for in this order:
#   1. SLIPSTREAM_CUDA_INCLUDE, a list of folders given by hand;
#   2. a toolkit: CUDA_HOME, CUDA_PATH, nvcc on PATH, /usr/local/cuda (not with SLIPSTREAM_HIDE_CUDA_TOOLKIT);
#   3. the pip packages that tools/setup puts into build/cuda-headers.

set(SLIPSTREAM_CUDA_INCLUDE "" CACHE STRING "Folders with cuda.h, cuda_runtime_api.h, cupti.h and nvtx3/")
set(SLIPSTREAM_CUDA_PIP_DIR "${PROJECT_SOURCE_DIR}/build/cuda-headers" CACHE PATH "Where tools/setup puts the pip packages")

set(_cuda_hints ${SLIPSTREAM_CUDA_INCLUDE})
if(NOT SLIPSTREAM_CUDA_INCLUDE)
  if(NOT SLIPSTREAM_HIDE_CUDA_TOOLKIT)
    find_program(SLIPSTREAM_NVCC nvcc)
    if(SLIPSTREAM_NVCC)
      file(REAL_PATH ${SLIPSTREAM_NVCC} _nvcc)
      cmake_path(GET _nvcc PARENT_PATH _nvcc)
      cmake_path(GET _nvcc PARENT_PATH _nvcc)
    endif()
    foreach(_root $ENV{CUDA_HOME} $ENV{CUDA_PATH} ${_nvcc} /usr/local/cuda)
      list(APPEND _cuda_hints ${_root}/include ${_root}/extras/CUPTI/include)
    endforeach()
  endif()
  file(GLOB _pip ${SLIPSTREAM_CUDA_PIP_DIR}/nvidia/*/include)
  list(APPEND _cuda_hints ${_pip})
endif()

set(_missing "")
set(_found "")
foreach(_pair "cuda.h|nvidia-cuda-runtime" "cuda_runtime_api.h|nvidia-cuda-runtime" "crt/host_defines.h|nvidia-cuda-crt"
              "cupti.h|nvidia-cuda-cupti" "nvtx3/nvToolsExt.h|nvidia-nvtx")
  string(REPLACE "|" ";" _pair ${_pair})
  list(GET _pair 0 _header)
  list(GET _pair 1 _package)
  string(MAKE_C_IDENTIFIER SLIPSTREAM_DIR_OF_${_header} _var)
  find_path(${_var} ${_header} HINTS ${_cuda_hints} NO_DEFAULT_PATH)
  mark_as_advanced(${_var})
  if(${_var})
    list(APPEND _found ${${_var}})
  else()
    list(APPEND _missing "${_header} (pip package ${_package})")
  endif()
endforeach()
if(_missing)
  list(JOIN _missing ", " _missing)
  message(FATAL_ERROR "CUDA headers not found: ${_missing}.\n"
    "Run tools/setup, which brings them, or install the CUDA toolkit 13.0, or run\n"
    "  python3 -m pip install --target ${SLIPSTREAM_CUDA_PIP_DIR} 'cuda-toolkit[cudart,crt,cupti,nvtx]==13.0.*'\n"
    "or name the folders with -DSLIPSTREAM_CUDA_INCLUDE=\"...\".")
endif()
list(REMOVE_DUPLICATES _found)
message(STATUS "CUDA headers: ${_found}")

add_library(slipstream_cuda_headers INTERFACE)
target_include_directories(slipstream_cuda_headers SYSTEM INTERFACE ${_found})
