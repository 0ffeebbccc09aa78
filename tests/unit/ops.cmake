set(op_check ops/op_check.c ops/reference.c)
hr_test(unit.products SOURCES ops/test_products.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.row_ops SOURCES ops/test_row_ops.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.slack SOURCES ops/test_slack.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.attention SOURCES ops/test_attention.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.routing_ops SOURCES ops/test_routing_ops.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.optimizer SOURCES ops/test_optimizer.c ${op_check} ROOMS ops LABELS tsan)
hr_test(unit.op_errors SOURCES ops/test_op_errors.c ${op_check} ROOMS ops)
hr_test(unit.vec SOURCES ops/test_vec.c ${op_check} ROOMS ops)

# The CUDA backend: its kernels, run by the test doubles of its libraries. All in both forms; and the programs
# above once more, of which two are slow under sanitizers.
if(TARGET cublas_double)
  hr_test(double.kernels SOURCES ops/test_cuda_kernels.c ${op_check} ROOMS ops LIBS ${CMAKE_DL_LIBS})
  set(double_tests kernels)
  set(programs row_ops slack routing_ops optimizer)
  if(NOT HEADRACE_SANITIZE)
    list(APPEND programs products attention)
  endif()
  foreach(noun ${programs})
    add_test(NAME double.${noun} COMMAND test_unit_${noun} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    list(APPEND double_tests ${noun})
  endforeach()
  # Their groups of threads copy by the host, which reaches managed memory only.
  foreach(noun dispatcher dispatch_order zero_copy staged_dispatch)
    list(APPEND managed_tests double.${noun})
    add_test(NAME double.${noun} COMMAND test_unit_${noun} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endforeach()
  list(TRANSFORM double_tests PREPEND double.)
  set(on_double HEADRACE_DEVICE=cuda HEADRACE_CUDART=$<TARGET_FILE:cudart_double>
    HEADRACE_CUBLAS=$<TARGET_FILE:cublas_double>)
  set_tests_properties(${double_tests} PROPERTIES TIMEOUT 300 LABELS cuda ENVIRONMENT "${on_double}")
  set_tests_properties(${managed_tests} PROPERTIES TIMEOUT 300 LABELS cuda
    ENVIRONMENT "${on_double};HEADRACE_CUDA_MEMORY=managed")
endif()
if(HEADRACE_NVCC AND HEADRACE_CUBLAS AND NOT HEADRACE_SANITIZE) # it is large
  hr_test(cuda.cublas SOURCES ops/test_cublas_load.c ROOMS ops LIBS hr_cuda_headers LABELS cuda)
endif()
