# Kernels in .cu files: nvcc makes a fatbin of each, which lies in the library as an array of bytes; nothing of
# nvcc's is linked. Sets HEADRACE_NVCC where there is a whole toolkit (nvcc, bin2c, headers of cuBLAS).
# HEADRACE_CUDA_ARCHS: what is built; NN is code for sm_NN, and pNN is PTX, for GPUs to come. Builds under
# sanitizers, whose programs run on the test double, only see that it compiles.
if(HEADRACE_SANITIZE)
  set(archs "90")
else()
  set(archs "80;90;100;p80;p100")
endif()
set(HEADRACE_CUDA_ARCHS "${archs}" CACHE STRING "GPUs that kernels are built for")
set(HEADRACE_NVCC "")
if(HEADRACE_CUDA_FOUND)
  find_program(HEADRACE_NVCC_PROGRAM nvcc HINTS ${HEADRACE_CUDA_ROOT}/bin)
  find_program(HEADRACE_BIN2C_PROGRAM bin2c HINTS ${HEADRACE_CUDA_ROOT}/bin)
  find_library(HEADRACE_CUBLAS cublas HINTS ${HEADRACE_CUDA_ROOT} PATH_SUFFIXES lib64 lib
    DOC "cuBLAS, as the last place to look at run time")
  if(HEADRACE_NVCC_PROGRAM AND HEADRACE_BIN2C_PROGRAM AND EXISTS ${HEADRACE_CUDA_INCLUDE}/cublas_v2.h)
    set(HEADRACE_NVCC ${HEADRACE_NVCC_PROGRAM})
    list(JOIN HEADRACE_CUDA_ARCHS " " archs)
    message(STATUS "CUDA kernels: on, ${HEADRACE_NVCC} for ${archs}")
  else()
    message(STATUS "CUDA kernels: off, the toolkit has no nvcc, no bin2c or no cuBLAS")
  endif()
endif()

set(HR_NVCC_SCRIPT ${PROJECT_SOURCE_DIR}/scripts/nvcc_fatbin.sh)
# hr_cuda_kernels(sources file.cu...): appends C files to the list `sources`; name.cu becomes
# `const unsigned long long hr__fatbin_name[]`.
function(hr_cuda_kernels sources)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME_WE)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/fatbin_${name}.c)
    add_custom_command(OUTPUT ${out}
      COMMAND sh ${HR_NVCC_SCRIPT} ${HEADRACE_NVCC} ${HEADRACE_BIN2C_PROGRAM} ${out} ${name}
        ${CMAKE_CURRENT_SOURCE_DIR}/${file} -I${PROJECT_SOURCE_DIR}/src -- ${HEADRACE_CUDA_ARCHS}
      DEPENDS ${file} ${HR_NVCC_SCRIPT} DEPFILE ${out}.d
      COMMENT "nvcc ${file}" VERBATIM)
    list(APPEND ${sources} ${out})
  endforeach()
  set(${sources} ${${sources}} PARENT_SCOPE)
endfunction()
