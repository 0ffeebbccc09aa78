# HEADRACE_CUDA: auto builds the CUDA backend where the toolkit's headers are; ON insists on them; OFF leaves
# it out. No library of CUDA is linked: the runtime is loaded when a device is opened.
# Sets HEADRACE_CUDA_FOUND, HEADRACE_CUDA_ROOT and the target hr_cuda_headers, or HEADRACE_CUDA_WHY.
set(HEADRACE_CUDA auto CACHE STRING "CUDA backend: auto, ON or OFF")
set(HEADRACE_CUDA_FOUND FALSE)
if(HEADRACE_CUDA)
  find_path(HEADRACE_CUDA_INCLUDE cuda_runtime_api.h
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES include
    DOC "headers of the CUDA toolkit")
  if(HEADRACE_CUDA_INCLUDE)
    set(HEADRACE_CUDA_FOUND TRUE)
  elseif(HEADRACE_CUDA STREQUAL "auto")
    set(HEADRACE_CUDA_WHY "no CUDA toolkit was found at build time")
  else()
    message(FATAL_ERROR "HEADRACE_CUDA=${HEADRACE_CUDA}: no cuda_runtime_api.h; set CUDA_HOME")
  endif()
else()
  set(HEADRACE_CUDA_WHY "built with HEADRACE_CUDA=${HEADRACE_CUDA}")
endif()

if(HEADRACE_CUDA_FOUND)
  get_filename_component(HEADRACE_CUDA_ROOT ${HEADRACE_CUDA_INCLUDE} DIRECTORY)
  file(STRINGS ${HEADRACE_CUDA_INCLUDE}/cuda_runtime_api.h version REGEX "^#define +CUDART_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+$" version "${version}")
  math(EXPR HEADRACE_CUDA_MAJOR "${version} / 1000")
  math(EXPR minor "${version} % 1000 / 10")
  # Where a runtime is looked for when the loader's own folders have none; absent on the machine of a user.
  find_library(HEADRACE_CUDART cudart HINTS ${HEADRACE_CUDA_ROOT} PATH_SUFFIXES lib64 lib
    DOC "the CUDA runtime, for tests and as the last place to look at run time")
  add_library(hr_cuda_headers INTERFACE)
  target_include_directories(hr_cuda_headers SYSTEM INTERFACE ${HEADRACE_CUDA_INCLUDE})
  message(STATUS "CUDA backend: on, headers ${HEADRACE_CUDA_MAJOR}.${minor} in ${HEADRACE_CUDA_ROOT}")
else()
  message(STATUS "CUDA backend: off, ${HEADRACE_CUDA_WHY}")
endif()

# HEADRACE_NVTX: ranges for NVIDIA's profilers; headers alone, of the toolkit or of a package.
set(HEADRACE_NVTX auto CACHE STRING "ranges for NVIDIA's profilers: auto, ON or OFF")
set(HEADRACE_NVTX_FOUND FALSE)
if(HEADRACE_NVTX)
  find_path(HEADRACE_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${HEADRACE_CUDA_ROOT} ENV CUDA_HOME
    PATHS /usr/local/cuda PATH_SUFFIXES include DOC "headers of NVTX 3")
  if(HEADRACE_NVTX_INCLUDE)
    set(HEADRACE_NVTX_FOUND TRUE)
    set(why "on, headers in ${HEADRACE_NVTX_INCLUDE}")
  elseif(HEADRACE_NVTX STREQUAL "auto")
    set(why "off, no nvtx3/nvToolsExt.h was found")
  else()
    message(FATAL_ERROR "HEADRACE_NVTX=${HEADRACE_NVTX}: no nvtx3/nvToolsExt.h; set CUDA_HOME")
  endif()
else()
  set(why "off, built with HEADRACE_NVTX=${HEADRACE_NVTX}")
endif()
message(STATUS "NVTX ranges: ${why}")

# HEADRACE_NCCL: groups over NCCL, whose header has to be there; the library is loaded when a group needs it.
# Sets HEADRACE_NCCL_FOUND and HEADRACE_NCCL_LIBRARY, or HEADRACE_NCCL_WHY.
set(HEADRACE_NCCL auto CACHE STRING "groups over NCCL: auto, ON or OFF")
set(HEADRACE_NCCL_FOUND FALSE)
if(NOT HEADRACE_NCCL)
  set(HEADRACE_NCCL_WHY "built with HEADRACE_NCCL=${HEADRACE_NCCL}")
elseif(NOT HEADRACE_CUDA_FOUND)
  set(HEADRACE_NCCL_WHY "${HEADRACE_CUDA_WHY}")
else()
  find_path(HEADRACE_NCCL_INCLUDE nccl.h HINTS ${HEADRACE_CUDA_INCLUDE} ENV NCCL_HOME PATH_SUFFIXES include
    DOC "header of NCCL")
  find_library(HEADRACE_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${HEADRACE_CUDA_ROOT} ENV NCCL_HOME
    PATH_SUFFIXES lib64 lib DOC "NCCL, as the last place to look at run time")
  if(HEADRACE_NCCL_INCLUDE)
    set(HEADRACE_NCCL_FOUND TRUE)
  else()
    set(HEADRACE_NCCL_WHY "no nccl.h was found at build time")
  endif()
endif()
if(HEADRACE_NCCL_FOUND)
  message(STATUS "NCCL engine: on, header in ${HEADRACE_NCCL_INCLUDE}")
elseif(HEADRACE_NCCL AND NOT HEADRACE_NCCL STREQUAL "auto")
  message(FATAL_ERROR "HEADRACE_NCCL=${HEADRACE_NCCL}: ${HEADRACE_NCCL_WHY}")
else()
  message(STATUS "NCCL engine: off, ${HEADRACE_NCCL_WHY}")
endif()
